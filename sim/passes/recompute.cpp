// Activation recomputation: what a block's forward saves for its backward is freed and made again.
#include <algorithm>
#include <map>
#include <set>

#include "core/base/text.h"
#include "sim/memory/live.h"
#include "sim/passes/arguments.h"
#include "sim/passes/host_actions.h"
#include "sim/passes/passes.h"
#include "sim/passes/rewriter.h"

namespace foregather::sim {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// The shortest path above a scope that the pattern names; "" as pattern: that ends in a number.
std::string block_of(std::string_view pattern, std::string_view scope) {
  for (std::size_t end = scope.find('.');; end = scope.find('.', end + 1)) {
    const std::string_view path = scope.substr(0, end);
    const bool is_block = pattern.empty() ? is_number(path.substr(path.rfind('.') + 1))
                                          : matches_scope(pattern, path);
    if (is_block && !path.empty()) return std::string(path);
    if (end == std::string_view::npos) return {};
  }
}

// What both sections launch.
struct Again {
  std::map<OpId, OpId> clones;  ///< by forward op
  std::map<StorageId, StorageId>
      stand_ins;  ///< by stand-in: the storage that a clone must not write
};

// One section of a program.
class Recompute {
 public:
  Recompute(Rewriter& rewriter, ProgramId program, Section section, std::string_view pattern,
            Again& shared)
      : rewriter_(rewriter),
        program_(program),
        actions_(rewriter.graph(), program, section),
        again_(shared) {
    for (ActionIndex at = 0; at < actions_.all.size(); ++at) {
      if (!actions_.is_launch(at)) continue;
      const Op& op = graph().at(actions_.op(at));
      if (op.phase != Phase::forward || is_collective(op.kind) || op.role != Role::compute)
        continue;
      const std::string block = block_of(pattern, graph().scope_name(op.scope));
      if (!block.empty()) blocks_[{op.micro_batch, block}].push_back(at);
    }
    // Of those that recompute something, nothing tells what else they could.
    for (ActionIndex at = 0; at < actions_.all.size(); ++at) {
      if (!actions_.is_launch(at)) continue;
      const Op& op = graph().at(actions_.op(at));
      if (op.phase == Phase::recompute)
        blocks_.erase({op.micro_batch, block_of(pattern, graph().scope_name(op.scope))});
    }
  }

  std::size_t run() {
    std::size_t done = 0;
    for (const auto& [key, forward] : blocks_) done += block(forward) ? 1 : 0;
    return done;
  }

 private:
  const Graph& graph() const { return rewriter_.graph(); }
  const Op& op_at(ActionIndex at) const { return graph().at(actions_.op(at)); }

  bool writes(ActionIndex at, StorageId storage) const {
    return std::ranges::any_of(graph().accesses_of(op_at(at)), [&](const AccessedTensor& access) {
      return graph().at(access.tensor).storage == storage && access.mode != Access::read;
    });
  }

  bool block(const std::vector<ActionIndex>& forward) {
    const std::set<ActionIndex> inside(forward.begin(), forward.end());
    std::map<StorageId, const Lifetime*> saved, made;
    ActionIndex at = actions_.all.size();  // the first use in the backward
    for (const Lifetime& life : actions_.bindings) {
      if (life.users.empty() || !inside.contains(life.users.front()) ||
          !writes(life.users.front(), life.storage) || graph().at(life.storage).on_host)
        continue;
      made[life.storage] = &life;
      const auto later = std::ranges::find_if(
          life.users, [&](ActionIndex user) { return op_at(user).phase != Phase::forward; });
      const bool leaves = std::any_of(life.users.begin(), later,
                                      [&](ActionIndex user) { return !inside.contains(user); });
      if (later == life.users.end() || leaves || !life.end ||
          op_at(*later).phase != Phase::backward)
        continue;
      saved[life.storage] = &life;
      at = std::min(at, *later);
    }
    if (saved.empty()) return false;

    // From the last op to the first: what makes what is needed.
    std::set<StorageId> needed;
    for (const auto& [storage, life] : saved) needed.insert(storage);
    std::vector<ActionIndex> again;
    for (auto op = forward.rbegin(); op != forward.rend(); ++op) {
      const auto accesses = graph().accesses_of(op_at(*op));
      if (std::ranges::none_of(accesses, [&](const AccessedTensor& access) {
            return access.mode != Access::read &&
                   needed.contains(graph().at(access.tensor).storage);
          }))
        continue;
      again.push_back(*op);
      for (const AccessedTensor& access : accesses) {
        const StorageId storage = graph().at(access.tensor).storage;
        const auto life = made.find(storage);
        if (life != made.end() && (!life->second->end || *life->second->end < at))
          needed.insert(storage);
      }
    }
    std::ranges::reverse(again);
    launch_again(again, saved, made, at);
    for (const auto& [storage, life] : saved) {
      ActionIndex last = life->begin;
      for (const ActionIndex user : life->users)
        if (op_at(user).phase == Phase::forward) last = user;
      insert_after(last, {ActionKind::free, {}, storage.row(), 0});
    }
    return true;
  }

  void launch_again(const std::vector<ActionIndex>& again,
                    const std::map<StorageId, const Lifetime*>& saved,
                    const std::map<StorageId, const Lifetime*>& made, ActionIndex at) {
    std::map<StorageId, ActionIndex> last;  // its last use here
    for (const ActionIndex op : again)
      for (const AccessedTensor& access : graph().accesses_of(op_at(op)))
        last[graph().at(access.tensor).storage] = op;
    std::set<StorageId> begun;
    const Phase phase = Phase::recompute;
    insert(at, {ActionKind::mark,
                {},
                op_at(again.front()).micro_batch,
                static_cast<std::uint32_t>(phase)});
    for (const ActionIndex op : again) {
      const OpId clone = clone_of(op, saved, made, at);
      std::set<StorageId> used, ends;
      for (const AccessedTensor& access : graph().accesses_of(graph().at(clone)))
        used.insert(graph().at(access.tensor).storage);
      for (const StorageId storage : used) {
        const bool is_new = again_.stand_ins.contains(storage);
        const auto life = made.find(storage);
        const bool is_temporary =
            is_new || (life != made.end() && life->second->end && *life->second->end < at);
        if ((is_temporary || saved.contains(storage)) && begun.insert(storage).second)
          insert(at, {ActionKind::alloc, op_at(op).stream, storage.row(), 0});
        const StorageId original = is_new ? again_.stand_ins.at(storage) : storage;
        if (last.at(original) != op) continue;
        if (is_temporary)
          ends.insert(storage);
        else if (!saved.contains(storage))
          keep_until(storage, at, ends);
      }
      insert(at, {ActionKind::launch, {}, clone.row(), 0});
      for (const StorageId storage : ends) insert(at, {ActionKind::free, {}, storage.row(), 0});
    }
    insert(
        at,
        {ActionKind::mark, {}, op_at(at).micro_batch, static_cast<std::uint32_t>(op_at(at).phase)});
  }

  // An input that the forward was done with is freed behind the recomputation.
  void keep_until(StorageId storage, ActionIndex at, std::set<StorageId>& ends) {
    if (actions_.binding_at(at, storage)) return;
    const Lifetime* before = nullptr;
    for (const Lifetime& life : actions_.bindings)
      if (life.storage == storage && life.begin < at) before = &life;
    if (before == nullptr || !before->end || before->by_release) return;
    const PlacedAction& placed = actions_.all[*before->end];
    if (rewriter_.is_erased(placed.list, placed.position)) return;
    rewriter_.erase(placed.list, placed.position);
    ends.insert(storage);
  }

  // What the forward leaves to others is written to a stand-in.
  OpId clone_of(ActionIndex op, const std::map<StorageId, const Lifetime*>& saved,
                const std::map<StorageId, const Lifetime*>& made, ActionIndex at) {
    const OpId origin = actions_.op(op);
    if (const auto found = again_.clones.find(origin); found != again_.clones.end())
      return found->second;
    std::vector<AccessedTensor> accesses;
    for (AccessedTensor access : graph().accesses_of(graph().at(origin))) {
      const StorageId storage = graph().at(access.tensor).storage;
      const auto life = made.find(storage);
      const bool stays = life != made.end() && !saved.contains(storage) &&
                         (!life->second->end || *life->second->end > at) &&
                         access.mode != Access::read;
      if (stays) {
        const StorageId other = rewriter_.add_storage(program_, graph().at(storage));
        again_.stand_ins.emplace(other, storage);
        Tensor tensor = graph().at(access.tensor);
        tensor.storage = other;
        access.tensor = rewriter_.add_tensor(tensor);
      }
      accesses.push_back(access);
    }
    Op clone = graph().at(origin);
    clone.phase = Phase::recompute;
    clone.deps = {};
    const OpId id = rewriter_.add_op(program_, clone, accesses);
    rewriter_.set_origins(id, std::vector<OpId>{origin});
    again_.clones.emplace(origin, id);
    return id;
  }

  void insert(ActionIndex at, const Action& action) {
    rewriter_.insert_before(actions_.all[at].list, actions_.all[at].position, action);
  }
  void insert_after(ActionIndex at, const Action& action) {
    rewriter_.insert_after(actions_.all[at].list, actions_.all[at].position, action);
  }

  Rewriter& rewriter_;
  ProgramId program_;
  HostActions actions_;
  Again& again_;
  std::map<std::pair<std::uint16_t, std::string>, std::vector<ActionIndex>> blocks_;
};

struct RecomputeBlocks {
  std::string text;
  std::string pattern;  ///< "": blocks whose path ends in a number

  Result<PassNote> operator()(PassTarget& target) const {
    PassNote note{text, "", false};
    Rewriter rewriter(target.graph);
    std::size_t blocks = 0;
    for (std::size_t p = 0; p < target.graph.programs.size(); ++p) {
      Again again;
      for (const Section section : {Section::first, Section::body}) {
        const std::size_t done = Recompute(rewriter, ProgramId(p), section, pattern, again).run();
        if (section == Section::body) blocks += done;
      }
    }
    if (blocks == 0) {
      const bool has_some = std::ranges::any_of(
          target.graph.ops, [](const Op& op) { return op.phase == Phase::recompute; });
      note.did = fmt::format(
          "no forward of {} saves activations that only its backward uses{}",
          pattern.empty() ? "a numbered block" : "a module that " + pattern + " matches",
          has_some ? ", but for those that recompute already" : "");
      return note;
    }
    const Bytes before = live_memory(target.graph).front().steady.bytes;
    note = settle(target, rewriter, {text, "", true});
    if (note.changed)
      note.did = fmt::format(
          "the forward of {} block{} runs again in the backward; live peak {} "
          "instead of {}",
          blocks, blocks == 1 ? "" : "s",
          format_bytes(live_memory(target.graph).front().steady.bytes), format_bytes(before));
    return note;
  }
};

// `none` has nothing to take away, or nothing that would tell what was saved before.
struct NoRecompute {
  std::string text;

  Result<PassNote> operator()(PassTarget& target) const {
    const bool has_some = std::ranges::any_of(
        target.graph.ops, [](const Op& op) { return op.phase == Phase::recompute; });
    if (has_some)
      return fail_at(
          "--what-if " + text,
          "the schedule recomputes activations and does not say what it would save "
          "instead; give --set train.activation_checkpointing=none where the source is a "
          "workload");
    return PassNote{text, "nothing is recomputed", false};
  }
};

Result<Pass> parse_recompute(const PassArguments& arguments) {
  if (arguments.argument.empty() || !arguments.options.empty())
    return bad_pass(arguments,
                    "expected recompute=none, recompute=full or recompute=PATTERN, as in "
                    "recompute=model.layers.*");
  if (arguments.argument == "none") return Pass(NoRecompute{std::string(arguments.text)});
  const bool is_full = arguments.argument == "full";
  return Pass(RecomputeBlocks{std::string(arguments.text),
                              is_full ? std::string() : std::string(arguments.argument)});
}

}  // namespace

const PassInfo kRecomputePass{
    "recompute", "=none|full|PATTERN",
    "frees what blocks save for their backward, and makes it again there",
    R"(A block is a module that the pattern names (as in `scale`; the shortest path that matches), or, for
`full`, one whose path ends in a number (`model.layers.3`). What its forward makes and only its own
forward and a backward use is freed after its last use in the forward. Right before its first use in the
backward, the ops that make it are launched again, in the phase `recompute`, with what they need in
between; what the block gives to others is kept, and its inputs live until then. Ops behind the last
saved tensor do not run again, as with PyTorch's non-reentrant checkpoint.

    before  |=forward=|-- saved activations --------------|=backward=|
    after   |=forward=|                        |=recompute|=backward=|

FLOPs rise by those of the ops that run again, which name their forward op as origin. `none` changes
nothing where nothing is recomputed, and is refused elsewhere: the schedule does not say what it would
have saved. A block that recomputes something already stays as it is, and so does a schedule (of ZeRO-3)
whose prefetched gathers would write what runs again. The host launches the ops again; what the hooks of
checkpointing cost it beside that is in steps lowered with `train.activation_checkpointing` alone. Idempotent.
)",
    &parse_recompute};

}  // namespace foregather::sim
