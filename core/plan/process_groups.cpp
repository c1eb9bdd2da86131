#include "core/plan/process_groups.h"

namespace foregather::plan {

ProcessGroup make_group(GraphBuilder& builder, std::string_view name, std::uint32_t count,
                        std::uint32_t stride, const Workload& workload) {
  if (count <= 1) return {};
  std::vector<std::uint32_t> ranks;
  ranks.reserve(count);
  std::uint32_t nodes = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t node = i * stride / workload.cluster.gpus_per_node;
    if (i == 0 || node != ranks.back() / workload.cluster.gpus_per_node) ++nodes;
    ranks.push_back(i * stride);
  }
  const GroupId group = builder.group(name, ranks, nodes, workload.parallel.world_size / count);
  return {group, builder.communicator(name, group), count};
}

CommunicatorId another_communicator(GraphBuilder& builder, std::string_view name,
                                    const ProcessGroup& group) {
  return group.ranks > 1 ? builder.communicator(name, group.group) : CommunicatorId();
}

ShardGroups make_shard_groups(GraphBuilder& builder, const Workload& workload) {
  const std::uint32_t shard = workload.parallel.shard_size;
  const std::uint32_t world = workload.parallel.world_size;
  return {make_group(builder, shard == world ? "world" : "shard", shard, 1, workload),
          make_group(builder, "replicate", world / shard, shard, workload)};
}

}  // namespace foregather::plan
