#include "sim/passes/shard_dtype.h"

#include <algorithm>

namespace foregather::sim {
namespace {

// The full-size cast that the gather stands for.
std::optional<OpId> fused_cast(const Graph& graph, OpId gather) {
  for (const OpId origin : graph.origins_of(graph.at(gather)))
    if (graph.at(origin).kind == OpKind::cast) return origin;
  return std::nullopt;
}

}  // namespace

bool is_fused_downcast(const Graph& graph, const CompiledNode& node) {
  return node.is_gather && node.ops.size() == 2 &&
         graph.at(node.ops.front()).kind == OpKind::cast &&
         fused_cast(graph, node.ops.back()).has_value();
}

bool Widener::touches(OpId op, StorageId storage) const {
  const Graph& graph = rewriter_.graph();
  const auto parts = graph.accesses_of(graph.at(op));
  return std::any_of(parts.begin(), parts.end(), [&](const AccessedTensor& part) {
    return graph.at(part.tensor).storage == storage;
  });
}

void Widener::widen(const CompiledGraph& compiled, const CompiledNode& node) {
  Graph& graph = rewriter_.graph();
  const OpId gather = node.ops.back();
  const OpId cast = *fused_cast(graph, gather);
  const auto narrowing = graph.accesses_of(graph.at(node.ops.front()));
  const AccessedTensor shard = narrowing[0];
  const StorageId narrow_shard = graph.at(narrowing[1].tensor).storage;
  const AccessedTensor output = graph.accesses_of(graph.at(gather)).back();
  const DType from = graph.at(shard.tensor).dtype;
  const DType to = graph.at(output.tensor).dtype;
  const auto widened = [&](Bytes bytes) { return bytes / size_of(to) * size_of(from); };

  auto [found, is_new] = wide_.try_emplace(*node.gathered);
  if (is_new) {
    Storage storage = graph.at(*node.gathered);
    storage.bytes = widened(storage.bytes);
    storage.cause = Cause::unsharded_parameter;
    Tensor tensor;
    tensor.storage = rewriter_.add_storage(program_.program, storage);
    tensor.dtype = from;
    tensor.shape = {static_cast<std::uint32_t>(graph.dims.size()), 1};
    graph.dims.push_back(storage.bytes / size_of(from));
    found->second = rewriter_.add_tensor(tensor);
  }
  const TensorId wide = found->second;
  Cost cost = graph.at(graph.at(gather).cost);
  bytes_more_ += widened(cost.message_bytes) - cost.message_bytes;
  cost.dtype = from;
  cost.message_bytes = widened(cost.message_bytes);
  cost.bytes_read = widened(cost.bytes_read);
  cost.bytes_written = widened(cost.bytes_written);
  const CostId row = rewriter_.add_cost(cost);
  graph.ops[gather.row()].cost = row;
  rewriter_.set_accesses(
      gather, std::array{shard, AccessedTensor{wide, Access::write, 0, widened(output.bytes)}});
  const auto old = graph.origins_of(graph.at(gather));
  std::vector<OpId> origins(old.begin(), old.end());
  std::erase(origins, cast);
  rewriter_.set_origins(gather, origins);
  const Bytes used = graph.at(graph.at(cast).cost).bytes_written;
  rewriter_.set_accesses(cast, std::array{AccessedTensor{wide, Access::read, 0, widened(used)},
                                          AccessedTensor{output.tensor, Access::write, 0, used}});
  for (std::size_t s = 0; s < compiled.actions.size(); ++s) {
    const ActionList list{compiled.list.program, compiled.list.thread,
                          s == 0 ? Section::first : Section::body};
    rewrite_actions(list, compiled.actions[s], node, cast, narrow_shard, graph.at(wide).storage);
  }
}

void Widener::rewrite_actions(const ActionList& list, Range run, const CompiledNode& node,
                              OpId cast, StorageId shard, StorageId wide) {
  const StorageId narrow = *node.gathered;
  const StreamId main = program_.streams.main;
  bool is_gathered = false, is_cast = false;
  for (std::uint32_t i = run.first; i < run.end(); ++i) {
    const Action action = rewriter_.actions(list)[i];
    switch (action.kind) {
      case ActionKind::alloc:
        if (action.a == shard.row()) rewriter_.erase(list, i);
        if (action.a == narrow.row())
          rewriter_.replace(list, i, {ActionKind::alloc, action.stream, wide.row(), 0});
        break;
      case ActionKind::launch:
        if (OpId(action.a) == node.ops.front()) rewriter_.erase(list, i);
        if (is_gathered && !is_cast && touches(OpId(action.a), narrow)) {
          is_cast = true;
          rewriter_.insert_before(list, i, {ActionKind::alloc, main, narrow.row(), 0});
          rewriter_.insert_before(list, i, {ActionKind::launch, {}, cast.row(), 0});
        }
        if (OpId(action.a) == node.ops.back()) is_gathered = true;
        break;
      case ActionKind::record_stream:
        if (action.a == narrow.row())
          rewriter_.replace(list, i, {ActionKind::record_stream, main, wide.row(), 0});
        break;
      case ActionKind::free:
        if (action.a == shard.row()) rewriter_.erase(list, i);
        if (action.a == narrow.row())
          rewriter_.insert_after(list, i, {ActionKind::free, {}, wide.row(), 0});
        break;
      default: break;
    }
  }
}

}  // namespace foregather::sim
