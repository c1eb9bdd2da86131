#include "sim/passes/gather_again.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "sim/passes/arguments.h"
#include "sim/passes/gather_chain.h"
#include "sim/passes/host_actions.h"

namespace foregather::sim {
namespace {

// A gather whose parameters are to be gathered again.
struct Crossing {
  GatherChain chain;
  ActionIndex last_before = 0;  ///< use
  ActionIndex first_after = 0;
};

// Rows that both sections use.
struct RepeatedRows {
  std::map<OpId, OpId> again;                                  ///< copies of ops
  std::map<StorageId, StorageId> storages;                     ///< of released parameters
  std::map<std::pair<TensorId, StorageId>, TensorId> tensors;  ///< views of these
  std::map<OpId, std::vector<AccessedTensor>> rewired;
};

class SectionCrossings {
 public:
  SectionCrossings(Rewriter& rewriter, ProgramId program, Section section, RepeatedRows& shared)
      : rewriter_(rewriter),
        program_(program),
        actions_(rewriter.graph(), program, section),
        shared_(shared) {
    for (GatherChain& chain : gather_chains(graph(), actions_)) {
      if (graph().at(chain.op).phase != Phase::forward) continue;
      ++forward_;
      if (auto found = crossing(std::move(chain))) crossings_.push_back(std::move(*found));
    }
  }

  const std::vector<Crossing>& crossings() const { return crossings_; }
  std::size_t forward() const { return forward_; }
  bool launches(OpId op) const {
    for (ActionIndex at = 0; at < actions_.all.size(); ++at)
      if (actions_.is_launch(at) && actions_.op(at) == op) return true;
    return false;
  }

  void apply(const Crossing& crossing) {
    chain_ = &crossing.chain;
    for (const std::size_t row : chain_->full) end_early(crossing, actions_.bindings[row]);
    issue(crossing);
    for (const std::size_t row : chain_->full) end_late(crossing, actions_.bindings[row]);
  }

 private:
  const Graph& graph() const { return rewriter_.graph(); }
  const Op& op_at(ActionIndex at) const { return graph().at(actions_.op(at)); }
  const Action& action(ActionIndex at) const { return actions_.all[at].action; }

  bool is_later_use(ActionIndex user) const {
    const Phase phase = op_at(user).phase;
    return phase == Phase::backward || phase == Phase::recompute;
  }

  std::optional<Crossing> crossing(GatherChain chain) const {
    Crossing crossing{std::move(chain), 0, actions_.all.size()};
    for (const std::size_t row : crossing.chain.full) {
      const Lifetime& binding = actions_.bindings[row];
      if (!binding.end) return std::nullopt;
      for (const ActionIndex user : binding.users)
        if (is_later_use(user)) crossing.first_after = std::min(crossing.first_after, user);
    }
    if (crossing.first_after == actions_.all.size()) {
      const auto begin = begin_of_backward(crossing.chain);
      if (!begin) return std::nullopt;
      crossing.first_after = *begin;
    }
    for (const std::size_t row : crossing.chain.full)
      for (const ActionIndex user : actions_.bindings[row].users)
        if (user < crossing.first_after)
          crossing.last_before = std::max(crossing.last_before, user);
    // What the forward does not use is gathered early, not kept.
    const auto& outputs = crossing.chain.outputs;
    if (crossing.last_before == (outputs.empty() ? crossing.chain.at : outputs.back()))
      return std::nullopt;
    widen(crossing);
    // A buffer that is still there cannot be filled again.
    for (const std::size_t row : crossing.chain.buffers)
      if (!actions_.bindings[row].end || *actions_.bindings[row].end > crossing.first_after)
        return std::nullopt;
    return crossing;
  }

  // Of the unit of parameters that it does not read, but that live until then.
  std::optional<ActionIndex> begin_of_backward(const GatherChain& chain) const {
    const Op& gather = graph().at(chain.op);
    if (!gather.unit || !graph().at(gather.unit).scope) return std::nullopt;
    ActionIndex first_end = actions_.all.size();
    for (const std::size_t row : chain.full)
      first_end = std::min(first_end, *actions_.bindings[row].end);
    for (ActionIndex at = chain.at + 1; at < first_end; ++at)
      if (actions_.is_launch(at) && is_later_use(at) && is_of_unit(op_at(at), gather)) return at;
    return std::nullopt;
  }

  bool is_of_unit(const Op& op, const Op& gather) const {
    if (op.micro_batch != gather.micro_batch || op.role != Role::compute) return false;
    const std::string_view scope = graph().scope_name(graph().at(gather.unit).scope);
    return scope.empty() || matches_scope(scope, graph().scope_name(op.scope));
  }

  // The unit's forward may go on behind the last use of a parameter, and its backward begin before
  // the first.
  void widen(Crossing& crossing) const {
    const Op& gather = graph().at(crossing.chain.op);
    if (!gather.unit || !graph().at(gather.unit).scope) return;
    const ActionIndex last = crossing.last_before;
    const ActionIndex first = crossing.first_after;
    for (ActionIndex at = last + 1; at < first; ++at) {
      if (!actions_.is_launch(at)) continue;
      const Op& op = op_at(at);
      if (!is_of_unit(op, gather)) continue;
      if (op.phase == Phase::forward && is_same_list(at, crossing.chain.at))
        crossing.last_before = at;
      if (is_later_use(at) && is_same_list(at, first))
        crossing.first_after = std::min(crossing.first_after, at);
    }
  }

  bool is_same_list(ActionIndex a, ActionIndex b) const {
    return actions_.all[a].list == actions_.all[b].list;
  }

  void insert(ActionIndex before, const Action& action) {
    const PlacedAction& placed = actions_.all[before];
    rewriter_.insert_before(placed.list, placed.position, action);
  }
  void insert_behind(ActionIndex at, const Action& action) {
    const PlacedAction& placed = actions_.all[at];
    rewriter_.insert_after(placed.list, placed.position, action);
  }

  // --- the lives of the parameters ---

  // Those that are freed in the forward anyway keep that.
  void end_early(const Crossing& crossing, const Lifetime& binding) {
    if (*binding.end < crossing.first_after) return;
    for (const ActionIndex at : binding.records) {
      Action record = action(at);
      insert_behind(crossing.last_before, record);
    }
    insert_behind(crossing.last_before, {ActionKind::free, {}, binding.storage.row(), 0});
    if (!binding.by_release) return;
    for (ActionIndex at = crossing.last_before + 1; at <= *binding.end; ++at)
      if (action(at).kind == ActionKind::release &&
          graph().tensors[action(at).a].storage == binding.storage)
        rewriter_.erase(actions_.all[at].list, actions_.all[at].position);
  }

  // A released storage is freed behind its last use; what nothing uses is freed by issue().
  void end_late(const Crossing& crossing, const Lifetime& binding) {
    if (*binding.end < crossing.first_after || !binding.by_release) return;
    const StorageId storage = again(binding);
    for (const ActionIndex user : binding.users)
      if (user >= crossing.first_after) rewire(actions_.op(user), binding.storage, storage);
    const ActionIndex last = std::max(binding.users.back(), crossing.first_after);
    insert_behind(last, {ActionKind::free, {}, storage.row(), 0});
  }

  // The storage of a parameter's second life.
  StorageId again(const Lifetime& binding) {
    if (!binding.by_release) return binding.storage;
    const auto [found, is_new] = shared_.storages.try_emplace(binding.storage, StorageId());
    if (is_new)
      found->second = rewriter_.add_storage(program_, Storage(graph().at(binding.storage)));
    return found->second;
  }

  TensorId view(TensorId tensor, StorageId storage) {
    if (graph().at(tensor).storage == storage) return tensor;
    const auto [found, is_new] = shared_.tensors.try_emplace({tensor, storage}, TensorId());
    if (is_new) {
      Tensor row = graph().at(tensor);
      row.storage = storage;
      found->second = rewriter_.add_tensor(row);
    }
    return found->second;
  }

  void rewire(OpId op, StorageId from, StorageId to) {
    const auto own = graph().accesses_of(graph().at(op));
    const auto [parts, is_new] = shared_.rewired.try_emplace(op);
    if (is_new) parts->second.assign(own.begin(), own.end());
    for (AccessedTensor& part : parts->second)
      if (graph().at(part.tensor).storage == from) part.tensor = view(part.tensor, to);
  }

  // --- the gather ---

  // A storage that the new gather touches: where its bytes were last written, and by what event
  // that is known.
  struct Touched {
    const Lifetime* binding = nullptr;
    StreamId allocated, written;
    std::optional<EventId> event;
    std::set<StreamId> synced;
  };

  void issue(const Crossing& crossing) {
    place_ = crossing.first_after;
    while (place_ > 0 && actions_.all[place_ - 1].list == actions_.all[place_].list &&
           action(place_ - 1).kind == ActionKind::alloc)
      --place_;
    touched_.clear();
    for (const std::size_t row : chain_->buffers) add(actions_.bindings[row]);
    for (const std::size_t row : chain_->full) add(actions_.bindings[row]);
    if (action(chain_->block_begin).kind == ActionKind::host_delay)
      insert(place_, action(chain_->block_begin));
    for (const ActionIndex input : chain_->inputs) launch(input);
    launch(chain_->at);
    const std::vector<ActionIndex>& outputs = chain_->outputs;
    for (const ActionIndex output : outputs) launch(output);
    const ActionIndex behind = outputs.empty() ? chain_->block_end : outputs.back() + 1;
    for (ActionIndex at = behind; at < actions_.all.size(); ++at) {
      if (action(at).kind != ActionKind::host_delay) break;
      insert(place_, action(at));
    }
    // The users' stream waits, also where one of the parameters has no user.
    for (const std::size_t row : chain_->full)
      for (const ActionIndex user : actions_.bindings[row].users)
        if (user >= crossing.first_after) sync(actions_.bindings[row].storage, op_at(user).stream);
    // So does the stream whose pool they go back to.
    for (const std::size_t row : chain_->full) {
      const StorageId storage = actions_.bindings[row].storage;
      sync(storage, touched_.at(storage).allocated);
    }
    for (const std::size_t row : chain_->full)
      if (*actions_.bindings[row].end < crossing.first_after) free(actions_.bindings[row]);
  }

  void add(const Lifetime& binding) {
    Touched touched;
    touched.binding = &binding;
    touched_.emplace(binding.storage, touched);
  }

  void allocate(Touched& touched) {
    touched.allocated = touched.written = action(touched.binding->begin).stream;
    const bool is_full =
        std::any_of(chain_->full.begin(), chain_->full.end(),
                    [&](std::size_t row) { return &actions_.bindings[row] == touched.binding; });
    const StorageId storage = is_full ? again(*touched.binding) : touched.binding->storage;
    insert(place_, {ActionKind::alloc, touched.allocated, storage.row(), 0});
  }

  EventId record(StreamId stream) {
    const EventId event = rewriter_.add_event(program_);
    insert(place_, {ActionKind::record, stream, event.row(), 0});
    return event;
  }

  void sync(StorageId storage, StreamId stream) {
    Touched& touched = touched_.at(storage);
    if (touched.written == stream || !touched.synced.insert(stream).second) return;
    if (!touched.event) touched.event = record(touched.written);
    // One wait for all that one collective wrote.
    for (auto& [other, same] : touched_)
      if (same.event == touched.event) same.synced.insert(stream);
    insert(place_, {ActionKind::wait, stream, touched.event->row(), 0});
  }

  void launch(ActionIndex at) {
    const Op& op = op_at(at);
    const StreamId stream = op.stream;
    const std::vector<AccessedTensor> parts(graph().accesses_of(op).begin(),
                                            graph().accesses_of(op).end());
    for (const AccessedTensor& part : parts) {
      const auto found = touched_.find(graph().at(part.tensor).storage);
      if (found == touched_.end()) continue;
      if (!found->second.allocated) allocate(found->second);
      sync(found->first, stream);
    }
    insert(place_, {ActionKind::launch, {}, copy(at, parts).row(), 0});
    std::optional<EventId> event;
    if (at == chain_->at) event = record(stream);
    for (const AccessedTensor& part : parts) {
      const auto found = touched_.find(graph().at(part.tensor).storage);
      if (found == touched_.end()) continue;
      Touched& touched = found->second;
      if (part.mode != Access::read) {
        touched.written = stream;
        touched.event = event;
        touched.synced.clear();
      }
    }
    for (const std::size_t row : chain_->buffers)
      if (actions_.bindings[row].users.back() == at) free(actions_.bindings[row], stream);
  }

  OpId copy(ActionIndex at, std::vector<AccessedTensor> parts) {
    const OpId own = actions_.op(at);
    const auto [found, is_new] = shared_.again.try_emplace(own, OpId());
    if (!is_new) return found->second;
    for (AccessedTensor& part : parts)
      for (const std::size_t row : chain_->full) {
        const Lifetime& binding = actions_.bindings[row];
        if (graph().at(part.tensor).storage == binding.storage)
          part.tensor = view(part.tensor, again(binding));
      }
    Op op = graph().at(own);
    op.phase = Phase::backward;
    op.deps = op.origins = {};
    found->second = rewriter_.add_op(program_, op, parts);
    return found->second;
  }

  // A buffer whose last use was on `stream`.
  void free(const Lifetime& buffer, StreamId stream) {
    Touched& touched = touched_.at(buffer.storage);
    for (const ActionIndex at : buffer.records) insert(place_, action(at));
    if (buffer.records.empty() && touched.allocated != stream) {
      const EventId event = record(stream);
      insert(place_, {ActionKind::wait, touched.allocated, event.row(), 0});
    }
    insert(place_, {ActionKind::free, {}, buffer.storage.row(), 0});
  }

  // Parameters that nothing uses again.
  void free(const Lifetime& full) {
    const Touched& touched = touched_.at(full.storage);
    sync(full.storage, touched.allocated);
    insert(place_, {ActionKind::free, {}, again(full).row(), 0});
  }

  Rewriter& rewriter_;
  ProgramId program_;
  HostActions actions_;
  RepeatedRows& shared_;
  std::vector<Crossing> crossings_;
  std::size_t forward_ = 0;
  const GatherChain* chain_ = nullptr;
  ActionIndex place_ = 0;
  std::map<StorageId, Touched> touched_;
};

}  // namespace

GatheredAgain gather_again(Rewriter& rewriter) {
  GatheredAgain result;
  for (std::size_t p = 0; p < rewriter.graph().programs.size(); ++p) {
    RepeatedRows shared;
    SectionCrossings sections[2] = {{rewriter, ProgramId(p), Section::first, shared},
                                    {rewriter, ProgramId(p), Section::body, shared}};
    result.forward += sections[1].forward();
    for (int s = 0; s < 2; ++s) {
      const SectionCrossings& other = sections[1 - s];
      for (const Crossing& crossing : sections[s].crossings()) {
        const OpId op = crossing.chain.op;
        const bool agrees = std::ranges::any_of(
            other.crossings(), [&](const Crossing& c) { return c.chain.op == op; });
        if (!agrees && other.launches(op)) continue;
        const Bytes bytes = rewriter.graph().at(rewriter.graph().at(op).cost).message_bytes;
        sections[s].apply(crossing);
        if (s == 0) continue;
        ++result.gathers;
        result.bytes += bytes;
      }
    }
    for (const auto& [op, parts] : shared.rewired) rewriter.set_accesses(op, parts);
  }
  return result;
}

}  // namespace foregather::sim
