#include "sim/passes/gather_join.h"

#include <algorithm>
#include <optional>
#include <set>

#include "sim/passes/host_actions.h"

namespace foregather::sim {
namespace {

// A gather of what an earlier one has gathered already.
struct Duplicate {
  std::size_t first = 0, second = 0;  ///< chains
};

// Views of the first copy, by the view of the second and the first's storage.
using Twins = std::map<std::pair<TensorId, StorageId>, TensorId>;

// One section of one program, under rewriting.
class SectionRewrite {
 public:
  SectionRewrite(Rewriter& rewriter, ProgramId program, Section section, const SameAs& same,
                 JoinedLife life, const JoinRule& rule, Twins& twins)
      : rewriter_(rewriter),
        life_(life),
        rule_(rule),
        actions_(rewriter.graph(), program, section),
        chains_(gather_chains(rewriter.graph(), actions_)),
        twins_(twins) {
    for (GatherChain& chain : chains_)
      for (ShardPart& part : chain.shards)
        if (const auto found = same.find(part.storage); found != same.end())
          part.storage = found->second;
  }

  std::vector<Duplicate> duplicates() const {
    std::vector<Duplicate> found;
    std::set<std::size_t> dropped;
    for (std::size_t second = 0; second < chains_.size(); ++second)
      for (std::size_t first = 0; first < second; ++first)
        if (!dropped.contains(first) && is_duplicate(chains_[first], chains_[second])) {
          found.push_back({first, second});
          dropped.insert(second);
          break;
        }
    return found;
  }

  OpId op(std::size_t chain) const { return chains_[chain].op; }

  void apply(const Duplicate& duplicate, std::map<OpId, std::vector<AccessedTensor>>& rewired,
             const Action* instead) {
    const GatherChain& first = chains_[duplicate.first];
    const GatherChain& second = chains_[duplicate.second];
    for (const ActionIndex at : second.inputs) erase(at);
    for (const ActionIndex at : second.outputs) {
      erase(at);
      erase_events(at, Role::copy_out);
    }
    const bool has_event = erase_events(second.at, Role::gather);
    for (ActionIndex at = second.block_begin; at < second.block_end; ++at) erase(at);
    for (const std::size_t row : second.buffers) erase_lifetime(actions_.bindings[row]);
    if (!has_event) erase_host_work(second.at);
    const PlacedAction& issue = actions_.all[second.block_begin];
    if (!has_event && instead != nullptr)
      rewriter_.insert_before(issue.list, issue.position, *instead);
    for (std::size_t i = 0; i < second.full.size(); ++i)
      join(actions_.bindings[first.full[i]], actions_.bindings[second.full[i]], second, rewired);
  }

 private:
  const Graph& graph() const { return rewriter_.graph(); }

  bool is_duplicate(const GatherChain& first, const GatherChain& second) const {
    const Op& a = graph().at(first.op);
    const Op& b = graph().at(second.op);
    if (a.micro_batch != b.micro_batch) return false;
    if (first.shards != second.shards || first.full.size() != second.full.size()) return false;
    for (std::size_t i = 0; i < first.full.size(); ++i) {
      const Lifetime& kept = actions_.bindings[first.full[i]];
      const Lifetime& dropped = actions_.bindings[second.full[i]];
      if (!rule_(a, b, kept, dropped)) return false;
      if (graph().at(kept.storage).bytes != graph().at(dropped.storage).bytes) return false;
      if (!kept.end || !dropped.end || kept.by_release != dropped.by_release) return false;
      if (kept.by_release && is_bound_again(kept)) return false;
      if (!kept.by_release && is_rebound_before(kept, dropped)) return false;
      if (!has_ordered_users(kept, second, dropped)) return false;
    }
    return true;
  }

  bool is_bound_again(const Lifetime& binding) const {
    return std::count_if(actions_.bindings.begin(), actions_.bindings.end(),
                         [&](const Lifetime& b) { return b.storage == binding.storage; }) > 1;
  }

  bool is_rebound_before(const Lifetime& kept, const Lifetime& dropped) const {
    return std::any_of(actions_.bindings.begin(), actions_.bindings.end(), [&](const Lifetime& b) {
      return b.storage == kept.storage && b.begin > kept.begin && b.begin < *dropped.end &&
             b.begin != dropped.begin;
    });
  }

  // What uses the second copy must run on a stream that the first copy was made or used on before.
  bool has_ordered_users(const Lifetime& kept, const GatherChain& second,
                         const Lifetime& dropped) const {
    const auto stream = [&](ActionIndex at) { return graph().at(actions_.op(at)).stream; };
    return std::all_of(dropped.users.begin(), dropped.users.end(), [&](ActionIndex user) {
      return is_part(user, second) ||
             std::any_of(kept.users.begin(), kept.users.end(), [&](ActionIndex earlier) {
               return earlier < user && stream(earlier) == stream(user);
             });
    });
  }

  static bool is_part(ActionIndex at, const GatherChain& chain) {
    return at == chain.at ||
           std::find(chain.outputs.begin(), chain.outputs.end(), at) != chain.outputs.end() ||
           std::find(chain.inputs.begin(), chain.inputs.end(), at) != chain.inputs.end();
  }

  void erase(ActionIndex at) { rewriter_.erase(actions_.all[at].list, actions_.all[at].position); }

  void erase_lifetime(const Lifetime& binding) {
    erase(binding.begin);
    for (const ActionIndex at : binding.records) erase(at);
    if (binding.end) erase(*binding.end);
  }

  // The event behind a launch that goes, with what waits for it, and the host's work in between;
  // but not where the event's slot is recorded elsewhere too. True if there was one.
  bool erase_events(ActionIndex launch, Role role) {
    const auto& list = actions_.all[launch].list;
    for (ActionIndex at = launch + 1; at < actions_.all.size(); ++at) {
      const Action& action = actions_.all[at].action;
      if (actions_.all[at].list != list) return false;
      if (action.kind == ActionKind::host_delay && role == Role::copy_out) continue;
      if (action.kind != ActionKind::record) return false;
      if (action.stream != graph().ops[actions_.all[launch].action.a].stream) return false;
      if (!is_dedicated(action.a, role)) return false;
      for (ActionIndex between = launch + 1; between <= at; ++between) erase(between);
      for (ActionIndex wait = at + 1; wait < actions_.all.size(); ++wait) {
        const Action& other = actions_.all[wait].action;
        if (other.a != action.a) continue;
        if (other.kind == ActionKind::record) return true;
        if (other.kind == ActionKind::wait || other.kind == ActionKind::host_wait_event)
          erase(wait);
      }
      return true;
    }
    return false;
  }

  // Behind a launch and what its buffers left: FSDP1, whose gathers have no events of their own,
  // makes views of the parameters there.
  void erase_host_work(ActionIndex launch) {
    const auto& list = actions_.all[launch].list;
    for (ActionIndex at = launch + 1; at < actions_.all.size(); ++at) {
      const PlacedAction& placed = actions_.all[at];
      if (placed.list != list) return;
      if (rewriter_.is_erased(list, placed.position)) continue;
      if (placed.action.kind == ActionKind::host_delay) erase(at);
      return;
    }
  }

  // The event behind a free that goes, if nothing waits for it any more.
  void erase_idle_event(ActionIndex free) {
    for (ActionIndex at = free + 1; at < actions_.all.size(); ++at) {
      const Action& action = actions_.all[at].action;
      if (actions_.all[at].list != actions_.all[free].list) return;
      const bool is_placeholder = action.kind == ActionKind::host_delay && action.a == 0;
      if (is_placeholder || action.kind == ActionKind::free || action.kind == ActionKind::release ||
          action.kind == ActionKind::record_stream)
        continue;
      if (action.kind == ActionKind::record && !is_awaited(action.a)) erase(at);
      return;
    }
  }

  bool is_awaited(std::uint32_t event) const {
    return std::ranges::any_of(actions_.all, [event](const PlacedAction& placed) {
      const ActionKind kind = placed.action.kind;
      return placed.action.a == event &&
             (kind == ActionKind::wait || kind == ActionKind::host_wait_event);
    });
  }

  // Is the event recorded behind launches of that role alone?
  bool is_dedicated(std::uint32_t event, Role role) const {
    for (ActionIndex at = 0; at < actions_.all.size(); ++at) {
      const Action& action = actions_.all[at].action;
      if (action.kind != ActionKind::record || action.a != event) continue;
      ActionIndex before = at;
      while (before > 0 && actions_.all[before - 1].action.kind == ActionKind::host_delay) --before;
      if (before == 0 || !actions_.is_launch(before - 1)) return false;
      if (graph().at(actions_.op(before - 1)).role != role) return false;
    }
    return true;
  }

  TensorId twin(TensorId tensor, StorageId storage) {
    const auto [found, is_new] = twins_.try_emplace({tensor, storage}, TensorId());
    if (is_new) {
      Tensor row = graph().at(tensor);
      row.storage = storage;
      found->second = rewriter_.add_tensor(row);
    }
    return found->second;
  }

  // The users of the second copy read the first, which lives until the last of them.
  void join(const Lifetime& kept, const Lifetime& dropped, const GatherChain& second,
            std::map<OpId, std::vector<AccessedTensor>>& rewired) {
    bool is_used = false;
    const bool is_same = kept.storage == dropped.storage;
    for (const ActionIndex user : dropped.users) {
      if (is_part(user, second)) continue;
      is_used = true;
      if (is_same) continue;
      const OpId op = actions_.op(user);
      const auto own = graph().accesses_of(graph().at(op));
      const auto [parts, is_new] = rewired.try_emplace(op);
      if (is_new) parts->second.assign(own.begin(), own.end());
      for (AccessedTensor& part : parts->second)
        if (graph().at(part.tensor).storage == dropped.storage)
          part.tensor = twin(part.tensor, kept.storage);
    }
    if (kept.by_release) return join_releases(kept, dropped);
    const bool lives_longer = (is_used || life_ == JoinedLife::by_unit) && *kept.end < *dropped.end;
    erase(dropped.begin);
    for (const ActionIndex at : dropped.records) {
      erase(at);
      if (lives_longer) insert_before(at, actions_.all[at].action, kept.storage);
    }
    erase(*dropped.end);
    if (!lives_longer) return;
    for (const ActionIndex at : kept.records) {
      erase(at);
      const StreamId stream = actions_.all[at].action.stream;
      const bool is_there = std::ranges::any_of(dropped.records, [&](ActionIndex other) {
        return actions_.all[other].action.stream == stream;
      });
      if (!is_there) insert_before(*dropped.end, actions_.all[at].action, kept.storage);
    }
    erase(*kept.end);
    erase_idle_event(*kept.end);
    insert_before(*dropped.end, actions_.all[*kept.end].action, kept.storage);
  }

  // All tensors of the second storage are released in its one lifetime: those of its twin as well.
  void join_releases(const Lifetime& kept, const Lifetime& dropped) {
    erase(dropped.begin);
    for (ActionIndex at = dropped.begin; at <= *dropped.end; ++at) {
      const Action& action = actions_.all[at].action;
      if (action.kind != ActionKind::release) continue;
      const TensorId tensor(action.a);
      if (graph().at(tensor).storage != dropped.storage) continue;
      Action moved = action;
      moved.a = twin(tensor, kept.storage).row();
      rewriter_.insert_before(actions_.all[at].list, actions_.all[at].position, moved);
      erase(at);
    }
  }

  void insert_before(ActionIndex at, Action action, StorageId storage) {
    action.a = storage.row();
    rewriter_.insert_before(actions_.all[at].list, actions_.all[at].position, action);
  }

  Rewriter& rewriter_;
  JoinedLife life_;
  const JoinRule& rule_;
  HostActions actions_;
  std::vector<GatherChain> chains_;
  Twins& twins_;
};

}  // namespace

JoinedGathers join_gathers(Rewriter& rewriter, const SameAs& same, JoinedLife life,
                           const JoinRule& rule, bool leaves_takes) {
  JoinedGathers joined;
  for (std::size_t p = 0; p < rewriter.graph().programs.size(); ++p) {
    // A gather that both steps launch goes in both or not at all.
    Twins twins;
    std::vector<SectionRewrite> sections;
    std::vector<std::vector<Duplicate>> found;
    std::map<OpId, OpId> partner[2];
    for (const Section section : {Section::first, Section::body}) {
      sections.emplace_back(rewriter, ProgramId(p), section, same, life, rule, twins);
      found.push_back(sections.back().duplicates());
      for (const Duplicate& duplicate : found.back())
        partner[found.size() - 1][sections.back().op(duplicate.second)] =
            sections.back().op(duplicate.first);
    }
    const auto is_launched = [&](OpId op, Section section) {
      for (const ActionList& list : rewriter.lists(section))
        if (list.program == ProgramId(p))
          for (const Action& action : rewriter.actions(list))
            if (action.kind == ActionKind::launch && action.a == op.row()) return true;
      return false;
    };
    std::map<OpId, std::vector<AccessedTensor>> rewired;
    std::optional<Action> take;
    for (std::size_t s = 0; s < 2; ++s)
      for (const Duplicate& duplicate : found[s]) {
        const OpId op = sections[s].op(duplicate.second);
        const auto other = partner[1 - s].find(op);
        const bool agrees = other != partner[1 - s].end() && other->second == partner[s][op];
        if (!agrees && is_launched(op, s == 0 ? Section::body : Section::first)) continue;
        if (leaves_takes && !take)
          take = {ActionKind::host_wait_event, {}, rewriter.add_event(ProgramId(p)).row(), 0};
        sections[s].apply(duplicate, rewired, take ? &*take : nullptr);
        if (s == 0) continue;
        ++joined.dropped;
        joined.bytes += rewriter.graph().at(rewriter.graph().at(op).cost).message_bytes;
      }
    for (const auto& [op, parts] : rewired) rewriter.set_accesses(op, parts);
  }
  return joined;
}

}  // namespace foregather::sim
