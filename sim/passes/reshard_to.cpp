#include "sim/passes/reshard_to.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "sim/passes/gather_chain.h"
#include "sim/passes/host_actions.h"

namespace foregather::sim {
namespace {

// A gather of the forward, and the one of the backward for the same parameters.
struct Pair {
  std::size_t forward = 0, backward = 0;  ///< chains
};

struct Kept {
  StorageId storage;
  TensorId tensor;
  Bytes bytes = 0;
};

// Rows that both sections use.
struct ReshardedRows {
  std::map<GroupId, CommunicatorId> communicators;  ///< by the shard group
  std::map<StorageId, Kept> kept;                   ///< by the parameter
  std::map<std::pair<StorageId, OpId>, OpId> copies;
  std::map<StorageId, StorageId> buffers;  ///< larger ones
  std::map<TensorId, TensorId> views;      ///< of larger buffers
  std::map<OpId, OpId> inputs;             ///< new ones, by the op in whose place they are
  std::set<OpId> gathers;                  ///< rewritten
};

class SectionPairs {
 public:
  SectionPairs(Rewriter& rewriter, ProgramId program, Section section, std::uint32_t ranks,
               ReshardedRows& shared)
      : rewriter_(rewriter),
        program_(program),
        actions_(rewriter.graph(), program, section),
        chains_(gather_chains(rewriter.graph(), actions_)),
        ranks_(ranks),
        shared_(shared) {
    // What was kept serves one gather.
    std::set<std::size_t> taken;
    for (std::size_t b = 0; b < chains_.size(); ++b)
      for (std::size_t a = 0; a < b; ++a)
        if (is_pair(chains_[a], chains_[b]) && taken.insert(a).second) {
          pairs_.push_back({a, b});
          break;
        }
  }

  const std::vector<Pair>& pairs() const { return pairs_; }
  const GatherChain& backward(const Pair& pair) const { return chains_[pair.backward]; }
  bool launches(OpId op) const {
    for (ActionIndex at = 0; at < actions_.all.size(); ++at)
      if (actions_.is_launch(at) && actions_.op(at) == op) return true;
    return false;
  }

  // Bytes that are kept.
  Bytes apply(const Pair& pair) {
    const GatherChain& forward = chains_[pair.forward];
    backward_ = &chains_[pair.backward];
    forward_full_.clear();
    for (const std::size_t row : forward.full)
      forward_full_.push_back(actions_.bindings[row].storage);
    const EventId kept = rewriter_.add_event(program_);
    Bytes bytes = 0;
    ActionIndex last = 0;
    for (const std::size_t row : forward.full) {
      bytes += keep(forward, actions_.bindings[row]);
      last = std::max(last, *actions_.bindings[row].end);
    }
    const StreamId stream = user_stream(actions_.bindings[forward.full.back()]);
    insert(last + 1, {ActionKind::record, stream, kept.row(), 0});
    wait_for(kept);
    for (const ActionIndex input : backward_->inputs) rewrite_input(input);
    for (const std::size_t row : backward_->buffers)
      if (!is_output(actions_.bindings[row].storage)) enlarge(actions_.bindings[row]);
    rewrite_gather();
    drop_kept(forward);
    return bytes;
  }

 private:
  const Graph& graph() const { return rewriter_.graph(); }
  const Op& op_at(ActionIndex at) const { return graph().at(actions_.op(at)); }
  const Action& action(ActionIndex at) const { return actions_.all[at].action; }
  void insert(ActionIndex before, const Action& what) {
    const PlacedAction& placed = actions_.all[before - 1];  // behind it, in its list
    rewriter_.insert_after(placed.list, placed.position, what);
  }
  void insert_before(ActionIndex at, const Action& what) {
    rewriter_.insert_before(actions_.all[at].list, actions_.all[at].position, what);
  }
  StreamId user_stream(const Lifetime& full) const { return op_at(full.users.back()).stream; }
  std::size_t group_ranks(const GatherChain& chain) const {
    const Op& op = graph().at(chain.op);
    return graph().at(graph().at(op.communicator).group).ranks.count;
  }

  bool is_pair(const GatherChain& a, const GatherChain& b) const {
    const Op& first = graph().at(a.op);
    const Op& second = graph().at(b.op);
    if (first.phase != Phase::forward || second.phase == Phase::forward) return false;
    if (first.micro_batch != second.micro_batch || first.unit != second.unit) return false;
    if (!first.communicator || !second.communicator || group_ranks(b) <= ranks_) return false;
    if (a.shards != b.shards || a.full.size() != b.full.size()) return false;
    if (b.shards.size() != b.full.size()) return false;
    const bool divides = group_ranks(b) % ranks_ == 0;  // else apply() is not called
    return std::ranges::all_of(a.full, [&](std::size_t row) {
      const Lifetime& binding = actions_.bindings[row];
      return binding.end && *binding.end < b.block_begin &&
             (!divides || graph().at(binding.storage).bytes % ranks_ == 0);
    });
  }

  // --- the forward ---

  Bytes keep(const GatherChain& forward, const Lifetime& full) {
    const Storage storage = graph().at(full.storage);
    const Bytes bytes = storage.bytes / ranks_;
    const StreamId stream = user_stream(full);
    const auto [found, is_new] = shared_.kept.try_emplace(full.storage);
    Kept& kept = found->second;
    const TensorId whole = written(forward, full.storage);
    if (is_new) {
      Storage part = storage;
      part.bytes = kept.bytes = bytes;
      kept.storage = rewriter_.add_storage(program_, part);
      kept.tensor = flat(kept.storage, graph().at(whole).dtype, bytes);
    }
    const auto [copy, is_new_copy] = shared_.copies.try_emplace({full.storage, forward.op}, OpId());
    if (is_new_copy) {
      Op op = graph().at(forward.op);
      op.kind = OpKind::copy;
      op.role = Role::copy_out;
      op.stream = stream;
      op.communicator = {};
      op.sequence = 0;
      op.deps = op.origins = {};
      Cost cost;
      cost.kind = OpKind::copy;
      cost.dtype = graph().at(whole).dtype;
      cost.bytes_read = cost.bytes_written = bytes;
      op.cost = rewriter_.add_cost(cost);
      const std::vector<AccessedTensor> parts{{whole, Access::read, 0, bytes},
                                              {kept.tensor, Access::write, 0, bytes}};
      copy->second = rewriter_.add_op(program_, op, parts);
    }
    insert_before(*full.end, {ActionKind::alloc, stream, kept.storage.row(), 0});
    insert_before(*full.end, {ActionKind::launch, {}, copy->second.row(), 0});
    return bytes;
  }

  // The tensor that the gather, or the copy of its output, writes.
  TensorId written(const GatherChain& chain, StorageId full) const {
    const auto look = [&](ActionIndex at) {
      for (const AccessedTensor& part : graph().accesses_of(op_at(at)))
        if (part.mode != Access::read && graph().at(part.tensor).storage == full)
          return part.tensor;
      return TensorId();
    };
    TensorId tensor = look(chain.at);
    for (const ActionIndex output : chain.outputs)
      if (!tensor) tensor = look(output);
    return tensor;
  }

  TensorId flat(StorageId storage, DType dtype, Bytes bytes) {
    Graph& graph = rewriter_.graph();
    const Tensor tensor{storage, 0, {static_cast<std::uint32_t>(graph.dims.size()), 1}, dtype};
    graph.dims.push_back(bytes / size_of(dtype));
    return rewriter_.add_tensor(tensor);
  }

  // --- the backward ---

  void wait_for(EventId kept) {
    ActionIndex first = backward_->block_begin;
    for (const ActionIndex input : backward_->inputs) first = std::min(first, input);
    for (const std::size_t row : backward_->buffers)
      first = std::min(first, actions_.bindings[row].begin);
    for (const StreamId stream : backward_streams())
      insert_before(first, {ActionKind::wait, stream, kept.row(), 0});
  }

  std::set<StreamId> backward_streams() const {
    std::set<StreamId> streams{op_at(backward_->at).stream};
    for (const ActionIndex input : backward_->inputs) streams.insert(op_at(input).stream);
    return streams;
  }

  bool is_output(StorageId storage) const {
    for (const AccessedTensor& part : graph().accesses_of(op_at(backward_->at)))
      if (part.mode != Access::read && graph().at(part.tensor).storage == storage) return true;
    return false;
  }

  std::int64_t factor() const {
    return static_cast<std::int64_t>(group_ranks(*backward_)) / ranks_;
  }

  // A buffer between the parts and the gather.
  void enlarge(const Lifetime& buffer) {
    const StorageId storage = larger(buffer.storage);
    std::vector<ActionIndex> places = buffer.records;
    places.push_back(buffer.begin);
    if (buffer.end) places.push_back(*buffer.end);
    for (const ActionIndex at : places) {
      Action changed = action(at);
      changed.a = changed.kind == ActionKind::release ? changed.a : storage.row();
      if (changed.kind == ActionKind::release) changed = {ActionKind::free, {}, storage.row(), 0};
      rewriter_.replace(actions_.all[at].list, actions_.all[at].position, changed);
    }
  }

  StorageId larger(StorageId storage) {
    const auto [found, is_new] = shared_.buffers.try_emplace(storage, StorageId());
    if (is_new) {
      Storage row = graph().at(storage);
      row.bytes *= factor();
      found->second = rewriter_.add_storage(program_, row);
    }
    return found->second;
  }

  // What an input op or the gather touches, with the parts in the place of the shards.
  AccessedTensor changed(AccessedTensor part) {
    const Tensor tensor = graph().at(part.tensor);
    for (std::size_t i = 0; i < backward_->shards.size(); ++i) {
      const ShardPart& shard = backward_->shards[i];
      if (shard.storage != tensor.storage || shard.offset != tensor.offset + part.offset) continue;
      const Kept& kept = shared_.kept.at(parameter(i));
      return {kept.tensor, part.mode, 0, kept.bytes};
    }
    part.offset *= factor();
    part.bytes *= factor();
    if (is_output(tensor.storage)) return part;
    const auto [found, is_new] = shared_.views.try_emplace(part.tensor, TensorId());
    if (is_new) {
      Tensor row = tensor;
      row.storage = larger(tensor.storage);
      row.offset *= factor();
      found->second = rewriter_.add_tensor(row);
      rewriter_.graph().tensors[found->second.row()].shape = {
          static_cast<std::uint32_t>(graph().dims.size()), 1};
      rewriter_.graph().dims.push_back(graph().at(larger(tensor.storage)).bytes /
                                       size_of(tensor.dtype));
    }
    part.tensor = found->second;
    return part;
  }

  // The forward's storage of the i-th parameter.
  StorageId parameter(std::size_t i) const { return forward_full_.at(i); }

  void rewrite_input(ActionIndex at) {
    const OpId own = actions_.op(at);
    const auto [found, is_new] = shared_.inputs.try_emplace(own, OpId());
    if (is_new) {
      const std::vector<AccessedTensor> old(graph().accesses_of(graph().at(own)).begin(),
                                            graph().accesses_of(graph().at(own)).end());
      std::vector<AccessedTensor> parts;
      Op op = graph().at(own);
      Cost cost = graph().at(op.cost);
      cost.kind = op.kind = OpKind::copy;  // the parts have the gathered dtype
      cost.bytes_read = cost.bytes_written = 0;
      for (const AccessedTensor& part : old) {
        parts.push_back(changed(part));
        if (part.mode != Access::write) cost.bytes_read += parts.back().bytes;
        if (part.mode != Access::read) cost.bytes_written += parts.back().bytes;
      }
      op.deps = op.origins = {};
      op.cost = rewriter_.add_cost(cost);
      found->second = rewriter_.add_op(program_, op, parts);
    }
    rewriter_.replace(actions_.all[at].list, actions_.all[at].position,
                      {ActionKind::launch, {}, found->second.row(), 0});
  }

  void rewrite_gather() {
    const OpId gather = backward_->op;
    if (!shared_.gathers.insert(gather).second) return;
    std::vector<AccessedTensor> parts(graph().accesses_of(graph().at(gather)).begin(),
                                      graph().accesses_of(graph().at(gather)).end());
    for (AccessedTensor& part : parts)
      if (part.mode == Access::read) part = changed(part);
    Cost cost = graph().at(graph().at(gather).cost);
    cost.bytes_read *= factor();
    const CommunicatorId communicator = smaller(graph().at(gather).communicator);
    cost.group = graph().at(communicator).group;
    const CostId row = rewriter_.add_cost(cost);
    rewriter_.graph().ops[gather.row()].cost = row;
    rewriter_.graph().ops[gather.row()].communicator = communicator;
    rewriter_.set_accesses(gather, parts);
  }

  // Of the first N ranks, and all others so.
  CommunicatorId smaller(CommunicatorId of) {
    Graph& graph = rewriter_.graph();
    const GroupId whole = graph.at(of).group;
    const auto [found, is_new] = shared_.communicators.try_emplace(whole, CommunicatorId());
    if (!is_new) return found->second;
    const Group from = graph.at(whole);
    const std::uint32_t a_node = (from.ranks.count + from.nodes - 1) / from.nodes;
    Group group = from;
    group.name = graph.strings.intern("post_forward");
    group.ranks.count = ranks_;
    group.instances = from.instances * (from.ranks.count / ranks_);
    group.nodes = (ranks_ + a_node - 1) / a_node;
    graph.groups.push_back(group);
    graph.communicators.push_back({group.name, GroupId(graph.groups.size() - 1)});
    return found->second = CommunicatorId(graph.communicators.size() - 1);
  }

  // Behind the copy of the output, which has waited for the gather; or behind the gather.
  void drop_kept(const GatherChain& forward) {
    const auto& outputs = backward_->outputs;
    for (const std::size_t row : forward.full) {
      const Lifetime& full = actions_.bindings[row];
      const StorageId kept = shared_.kept.at(full.storage).storage;
      const bool is_ordered = !outputs.empty() && op_at(outputs.back()).stream == user_stream(full);
      const ActionIndex behind = is_ordered ? outputs.back() + 1 : backward_->at + 1;
      if (!is_ordered)
        for (const StreamId stream : backward_streams())
          insert(behind, {ActionKind::record_stream, stream, kept.row(), 0});
      insert(behind, {ActionKind::free, {}, kept.row(), 0});
    }
  }

  Rewriter& rewriter_;
  ProgramId program_;
  HostActions actions_;
  std::vector<GatherChain> chains_;
  std::uint32_t ranks_;
  ReshardedRows& shared_;
  std::vector<Pair> pairs_;
  const GatherChain* backward_ = nullptr;
  std::vector<StorageId> forward_full_;
};

}  // namespace

ReshardedTo reshard_to(Rewriter& rewriter, std::uint32_t ranks) {
  ReshardedTo result;
  for (std::size_t p = 0; p < rewriter.graph().programs.size(); ++p) {
    ReshardedRows shared;
    SectionPairs sections[2] = {{rewriter, ProgramId(p), Section::first, ranks, shared},
                                {rewriter, ProgramId(p), Section::body, ranks, shared}};
    for (int s = 0; s < 2; ++s)
      for (const Pair& pair : sections[s].pairs()) {
        const Graph& graph = rewriter.graph();
        const Op& gather = graph.at(sections[s].backward(pair).op);
        const Group& group = graph.at(graph.at(gather.communicator).group);
        if (group.ranks.count % ranks == 0) continue;
        result.indivisible.emplace(graph.scope_name(gather.scope), group.ranks.count);
        return result;
      }
    for (int s = 0; s < 2; ++s) {
      const SectionPairs& other = sections[1 - s];
      for (const Pair& pair : sections[s].pairs()) {
        const OpId op = sections[s].backward(pair).op;
        const bool agrees = std::ranges::any_of(
            other.pairs(), [&](const Pair& same) { return other.backward(same).op == op; });
        if (!agrees && other.launches(op)) continue;
        const Bytes kept = sections[s].apply(pair);
        if (s == 0) continue;
        ++result.gathers;
        result.kept += kept;
      }
    }
  }
  return result;
}

}  // namespace foregather::sim
