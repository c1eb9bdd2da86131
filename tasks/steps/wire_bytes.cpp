#include "tasks/steps/wire_bytes.h"

namespace foregather::tasks {

Bytes wire_bytes(const Graph& graph, const Op& op) {
  const Cost& cost = graph.at(op.cost);
  if (!is_collective(op.kind) || !cost.group) return 0;
  const std::int64_t ranks = graph.at(cost.group).ranks.count;
  if (ranks <= 1) return 0;
  const Bytes once =
      cost.message_bytes / ranks * (ranks - 1) + cost.message_bytes % ranks * (ranks - 1) / ranks;
  switch (op.kind) {
    case OpKind::all_reduce:
      return cost.message_bytes / ranks * 2 * (ranks - 1) +
             cost.message_bytes % ranks * 2 * (ranks - 1) / ranks;
    case OpKind::send_recv: return cost.message_bytes;
    case OpKind::barrier: return 0;
    default: return once;
  }
}

}  // namespace foregather::tasks
