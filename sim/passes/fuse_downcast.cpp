#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/suggest.h"
#include "core/base/text.h"
#include "sim/passes/gather_chain.h"
#include "sim/passes/host_actions.h"
#include "sim/passes/passes.h"
#include "sim/passes/recorded_gathers.h"
#include "sim/passes/rewriter.h"

namespace foregather::sim {
namespace {

using namespace std::string_view_literals;

// A gather and the cast that alone uses it, in one section.
struct CastFusion {
  ActionIndex gather = 0, cast = 0;  ///< launches
  std::size_t from = 0, into = 0;    ///< bindings: the gather's output, the cast's
  AccessedTensor shard, output;      ///< what the gather reads, what the cast writes
};

bool same_rows(const HostActions& left, const CastFusion& a, const HostActions& right,
               const CastFusion& b) {
  return left.op(a.cast) == right.op(b.cast) &&
         left.bindings[a.from].storage == right.bindings[b.from].storage &&
         left.bindings[a.into].storage == right.bindings[b.into].storage;
}

// Does the host issue other compute between the gather and the wait for it?
bool is_prefetched(const Graph& graph, const HostActions& actions, const CastFusion& fusion) {
  const StreamId issuing = graph.at(actions.op(fusion.gather)).stream;
  std::optional<std::uint32_t> done;  // the event behind it
  for (ActionIndex at = fusion.gather + 1; at < fusion.cast; ++at) {
    const Action& action = actions.all[at].action;
    if (action.kind == ActionKind::record && action.stream == issuing && !done) done = action.a;
    if (action.kind == ActionKind::wait && done == action.a) return false;
    if (actions.is_launch(at) && graph.at(actions.op(at)).role == Role::compute) return true;
  }
  return false;
}

std::optional<CastFusion> fusion_of(const Graph& graph, const HostActions& actions,
                                    const GatherChain& chain) {
  if (!chain.inputs.empty() || !chain.outputs.empty() || chain.full.size() != 1)
    return std::nullopt;
  CastFusion fusion;
  fusion.gather = chain.at;
  fusion.from = chain.full.front();
  const Lifetime& from = actions.bindings[fusion.from];
  if (from.users.size() != 2 || from.users.front() != chain.at || !from.end) return std::nullopt;
  fusion.cast = from.users.back();
  const Op& cast = graph.at(actions.op(fusion.cast));
  const auto parts = graph.accesses_of(cast);
  if (cast.kind != OpKind::cast || parts.size() != 2) return std::nullopt;
  if (parts[0].mode != Access::read || parts[1].mode != Access::write) return std::nullopt;
  const DType before = graph.at(parts[0].tensor).dtype;
  const DType after = graph.at(parts[1].tensor).dtype;
  if (size_of(after) >= size_of(before)) return std::nullopt;
  // The whole of one becomes the whole of the other.
  const Bytes elements = parts[0].bytes / size_of(before);
  if (elements * size_of(after) != parts[1].bytes) return std::nullopt;
  // But for the padding of the last rank's shard.
  const Bytes whole = graph.at(from.storage).bytes;
  if (parts[0].offset != 0 || parts[0].bytes > whole) return std::nullopt;
  if (graph.at(parts[0].tensor).offset != 0) return std::nullopt;
  const auto ranks = static_cast<Bytes>(
      graph.ranks_of(graph.at(graph.at(graph.at(chain.op).cost).group).ranks).size());
  if (whole - parts[0].bytes >= ranks * size_of(before)) return std::nullopt;
  const auto into = actions.binding_at(fusion.cast, graph.at(parts[1].tensor).storage);
  if (!into || graph.at(actions.bindings[*into].storage).bytes != parts[1].bytes)
    return std::nullopt;
  if (actions.bindings[*into].users.front() != fusion.cast) return std::nullopt;
  if (actions.bindings[*into].begin < from.begin) return std::nullopt;
  fusion.into = *into;
  fusion.output = parts[1];
  const auto gathered = graph.accesses_of(graph.at(chain.op));
  if (gathered.size() != 2 || gathered[0].mode != Access::read) return std::nullopt;
  fusion.shard = gathered[0];
  return fusion;
}

class Fuser {
 public:
  Fuser(Rewriter& rewriter, ProgramId program) : rewriter_(rewriter), program_(program) {}

  // What the ops become: once for both sections.
  void rewrite_ops(const HostActions& actions, const CastFusion& fusion) {
    const OpId gather_id = actions.op(fusion.gather);
    const OpId cast_id = actions.op(fusion.cast);
    const Op gather = graph().at(gather_id);
    const Cost before = graph().at(gather.cost);
    const DType wide = graph().at(fusion.shard.tensor).dtype;
    const DType narrow = graph().at(fusion.output.tensor).dtype;
    const auto narrowed = [&](Bytes bytes) { return bytes / size_of(wide) * size_of(narrow); };

    Storage storage;
    storage.bytes = narrowed(fusion.shard.bytes);
    storage.name = graph().strings.intern("shard cast");
    storage.scope = gather.scope;
    storage.unit = gather.unit;
    storage.cause = Cause::cast_copy;
    Made made;
    made.shard = rewriter_.add_storage(program_, storage);
    Tensor tensor;
    tensor.storage = made.shard;
    tensor.dtype = narrow;
    tensor.shape = {static_cast<std::uint32_t>(graph().dims.size()), 1};
    rewriter_.graph().dims.push_back(storage.bytes / size_of(narrow));
    const TensorId cast_shard = rewriter_.add_tensor(tensor);

    Cost cost;
    cost.kind = OpKind::cast;
    cost.dtype = narrow;
    cost.bytes_read = fusion.shard.bytes;
    cost.bytes_written = storage.bytes;
    Op cast = graph().at(cast_id);
    cast.role = Role::cast;
    cast.stream = gather.stream;
    cast.cost = rewriter_.add_cost(cost);
    cast.deps = cast.origins = {};
    const AccessedTensor reads = fusion.shard;
    const AccessedTensor writes{cast_shard, Access::write, 0, storage.bytes};
    made.cast = rewriter_.add_op(program_, cast, std::array{reads, writes});

    AccessedTensor output = fusion.output;
    const Storage& full = graph().at(actions.bindings[fusion.from].storage);
    if (narrowed(full.bytes) > output.bytes) {
      output.bytes = narrowed(full.bytes);
      const StorageId into = actions.bindings[fusion.into].storage;
      graph().storages[into.row()].bytes = output.bytes;
      Tensor padded;
      padded.storage = into;
      padded.dtype = narrow;
      padded.shape = {static_cast<std::uint32_t>(graph().dims.size()), 1};
      graph().dims.push_back(output.bytes / size_of(narrow));
      output.tensor = rewriter_.add_tensor(padded);
      made.padded = output.tensor;
    }

    Cost wire = before;
    wire.dtype = narrow;
    wire.message_bytes = narrowed(before.message_bytes);
    wire.bytes_read = narrowed(before.bytes_read);
    wire.bytes_written = narrowed(before.bytes_written);
    rewriter_.graph().ops[gather_id.row()].cost = rewriter_.add_cost(wire);
    rewriter_.set_accesses(
        gather_id, std::array{AccessedTensor{cast_shard, Access::read, 0, storage.bytes}, output});
    const auto old = graph().origins_of(graph().at(gather_id));
    std::vector<OpId> origins(old.begin(), old.end());
    origins.push_back(cast_id);
    rewriter_.set_origins(gather_id, origins);
    made_[gather_id] = made;
    saved_ += before.message_bytes - wire.message_bytes;
  }

  void rewrite_actions(const HostActions& actions, const CastFusion& fusion) {
    const OpId gather = actions.op(fusion.gather);
    const Made& made = made_.at(gather);
    const StreamId stream = graph().at(gather).stream;
    const Lifetime& from = actions.bindings[fusion.from];
    const Lifetime& into = actions.bindings[fusion.into];
    const auto erase = [&](ActionIndex at) {
      rewriter_.erase(actions.all[at].list, actions.all[at].position);
    };
    const auto insert = [&](ActionIndex at, const Action& action) {
      rewriter_.insert_before(actions.all[at].list, actions.all[at].position, action);
    };
    // The narrow copy takes the place of the wide one, in its stream's pool.
    const StreamId owner = actions.all[from.begin].action.stream;
    insert(from.begin, {ActionKind::alloc, owner, into.storage.row(), 0});
    erase(from.begin);
    erase(into.begin);
    for (const ActionIndex at : from.records) erase(at);
    for (ActionIndex at = from.begin; at < *from.end; ++at)
      if (actions.all[at].action.kind == ActionKind::release &&
          graph().tensors[actions.all[at].action.a].storage == from.storage)
        erase(at);
    erase(*from.end);
    erase(fusion.cast);
    insert(fusion.gather, {ActionKind::alloc, stream, made.shard.row(), 0});
    insert(fusion.gather, {ActionKind::launch, {}, made.cast.row(), 0});
    rewriter_.insert_after(actions.all[fusion.gather].list, actions.all[fusion.gather].position,
                           {ActionKind::free, {}, made.shard.row(), 0});
    if (!into.end) return;
    if (made.padded && into.by_release)
      insert(*into.end, {ActionKind::release, {}, made.padded.row(), 0});
    std::vector<StreamId> users;
    for (const ActionIndex user : into.users) {
      const StreamId used = graph().at(actions.op(user)).stream;
      if (used != owner && std::find(users.begin(), users.end(), used) == users.end())
        users.push_back(used);
    }
    for (const ActionIndex at : into.records) std::erase(users, actions.all[at].action.stream);
    for (const StreamId used : users)
      insert(*into.end, {ActionKind::record_stream, used, into.storage.row(), 0});
  }

  Bytes saved() const { return saved_; }

 private:
  struct Made {
    StorageId shard;  ///< the cast shard
    OpId cast;
    TensorId padded;  ///< what the gather writes where that is more than the cast's output
  };
  const Graph& graph() const { return rewriter_.graph(); }
  Graph& graph() { return rewriter_.graph(); }

  Rewriter& rewriter_;
  ProgramId program_;
  std::map<OpId, Made> made_;  ///< by gather
  Bytes saved_ = 0;
};

struct FuseDowncast {
  std::string text;
  bool leaves_prefetched = false;

  Result<PassNote> of_recorded(PassTarget& target) const {
    Rewriter rewriter(target.graph);
    const ChangedGathers narrowed = narrow_recorded_gathers(rewriter);
    if (narrowed.gathers == 0)
      return PassNote{text, "no recorded gather of fp32 is awaited by one narrowing cast alone",
                      false};
    return settle(target, rewriter,
                  {text,
                   fmt::format("{} recorded gathers send the narrow dtype, {} less",
                               narrowed.gathers, format_bytes(narrowed.bytes)),
                   true});
  }

  Result<PassNote> operator()(PassTarget& target) const {
    if (is_recorded(target.graph)) return of_recorded(target);
    target.prefetches_shards = leaves_prefetched;
    Rewriter rewriter(target.graph);
    std::size_t fused = 0;
    std::size_t prefetched = 0;
    Bytes saved = 0;
    for (std::size_t p = 0; p < rewriter.graph().programs.size(); ++p) {
      const std::array sections{HostActions(rewriter.graph(), ProgramId(p), Section::first),
                                HostActions(rewriter.graph(), ProgramId(p), Section::body)};
      std::array<std::map<OpId, std::optional<CastFusion>>, 2> found;
      for (std::size_t s = 0; s < 2; ++s)
        for (const GatherChain& chain : gather_chains(rewriter.graph(), sections[s])) {
          auto fusion = fusion_of(rewriter.graph(), sections[s], chain);
          if (fusion && leaves_prefetched &&
              is_prefetched(rewriter.graph(), sections[s], *fusion)) {
            prefetched += s;
            fusion.reset();
          }
          found[s][chain.op] = fusion;
        }
      Fuser fuser(rewriter, ProgramId(p));
      for (std::size_t s = 0; s < 2; ++s)
        for (const auto& [op, fusion] : found[s]) {
          if (!fusion) continue;
          const auto other = found[1 - s].find(op);
          const bool is_shared = other != found[1 - s].end();
          // Both steps or neither.
          if (is_shared &&
              (!other->second || !same_rows(sections[s], *fusion, sections[1 - s], *other->second)))
            continue;
          if (s == 0 || !is_shared) fuser.rewrite_ops(sections[s], *fusion);
          fuser.rewrite_actions(sections[s], *fusion);
          fused += s;
        }
      saved += fuser.saved();
    }
    const std::string left =
        prefetched == 0
            ? std::string()
            : fmt::format("{} prefetched gathers stay in the shard's dtype", prefetched);
    if (fused == 0)
      return PassNote{text, left.empty() ? "no gather is used by one narrowing cast alone" : left,
                      false};
    return settle(target, rewriter,
                  {text,
                   fmt::format("{} gathers of a step send the narrow dtype, {} less{}{}", fused,
                               format_bytes(saved), left.empty() ? "" : "; ", left),
                   true});
  }
};

Result<Pass> parse_fuse_downcast(const PassArguments& arguments) {
  FuseDowncast pass;
  pass.text = arguments.text;
  constexpr std::array kValues{"target"sv, "shard"sv};
  if (!arguments.argument.empty() || arguments.options.size() > 1)
    return bad_pass(arguments, "expected fuse-downcast or fuse-downcast,prefetch_dtype=VALUE");
  for (const auto& [key, value] : arguments.options) {
    constexpr std::array kKeys{"prefetch_dtype"sv};
    if (key != kKeys[0])
      return bad_pass(arguments, "unknown option '{}'{}; known is prefetch_dtype", key,
                      did_you_mean(key, kKeys));
    if (value != "shard" && value != "target")
      return bad_pass(arguments, "prefetch_dtype is '{}'{}, expected target or shard", value,
                      did_you_mean(value, kValues));
    pass.leaves_prefetched = value == "shard";
  }
  return Pass(pass);
}

}  // namespace

// DeepSpeed PR 7588 (reference: DeepCompile §C.3): a parameter whose only user is a cast to a
// smaller type is cast on the gather's stream and gathered in that type.
const PassInfo kFuseDowncastPass{
    "fuse-downcast", "[,prefetch_dtype=target|shard]",
    "casts a shard before its gather where the gathered parameter is only cast to a smaller dtype",
    R"(A gather whose output has one user, a cast of all of it to a smaller dtype, becomes a cast of the
shard on the gather's stream and a gather in the smaller dtype, straight into the cast's output: fp32
to bf16 halves the bytes on the wire, and the full fp32 copy and the full-size cast are gone. The cast
stays as an origin of the gather. `prefetch_dtype=shard` does as DeepSpeed's code does: gathers that the
host issues ahead of other compute stay as they are (its prefetch passes no dtype), and a later
`prefetch=budget` takes the fusion of what it prefetches back; `target`, the default, is what its
description says. Before `order=fast-free`, which a fusion changes the outcome of.

    before  gather |==4n==|---|cast|              |===2n===|free
    after   cast shard, gather |==2n==|-----------|===2n===|free

Gathers that are filled or emptied by copies (FSDP) already cast the shard and are left. Idempotent.

In a recorded run, where a cast to bf16 or fp16 alone waited for an fp32 gather, the gather takes half
its recorded time, and the cast the recorded one's over the number of ranks.
)",
    &parse_fuse_downcast};

}  // namespace foregather::sim
