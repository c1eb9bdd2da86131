// The groups of ranks that sharded training communicates in.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/ir/builder.h"
#include "core/plan/workload.h"

namespace foregather::plan {

/// A group with its NCCL communicator; `ranks` 1 means no communication at all (then both ids are
/// absent).
struct ProcessGroup {
  GroupId group;
  CommunicatorId communicator;
  std::uint32_t ranks = 1;
};

/// The group of rank 0 among `count` ranks at distance `stride`, one of the like groups that
/// partition the world, with a communicator of the same name.
ProcessGroup make_group(GraphBuilder& builder, std::string_view name, std::uint32_t count,
                        std::uint32_t stride, const Workload& workload);

/// A further communicator over the same ranks.
CommunicatorId another_communicator(GraphBuilder& builder, std::string_view name,
                                    const ProcessGroup& group);

/// Ranks 0 … shard_size − 1 shard parameters among them (neighbours: within a node where they fit);
/// rank r + k·shard_size replicates rank r (PyTorch's 2-D device mesh replicate × shard).
struct ShardGroups {
  ProcessGroup shard;
  ProcessGroup replicate;  ///< of hybrid sharding
};
ShardGroups make_shard_groups(GraphBuilder& builder, const Workload& workload);

}  // namespace foregather::plan
