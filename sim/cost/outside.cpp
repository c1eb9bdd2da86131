#include "sim/cost/outside.h"

#include <algorithm>

#include "sim/cost/nccl_topology.h"

namespace foregather::sim {

Bytes outside_allocator_bytes(const Graph& graph, const Hardware& hardware) {
  double bytes = hardware.outside.context + hardware.outside.libraries;
  for (const Communicator& communicator : graph.communicators) {
    if (!communicator.group) continue;
    const Group& group = graph.at(communicator.group);
    const int ranks = static_cast<int>(group.ranks.count);
    if (ranks <= 1) continue;
    const int nodes = std::clamp(static_cast<int>(group.nodes), 1, ranks);
    const NcclTopology topology = nccl_topology(hardware, ranks, nodes);
    bytes += hardware.outside.nccl_per_channel * topology.comm_channels;
  }
  return static_cast<Bytes>(bytes);
}

}  // namespace foregather::sim
