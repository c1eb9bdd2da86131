// What ZeRO-3 and DeepCompile both make of a model's shards.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/plan/process_groups.h"
#include "core/plan/zero_update.h"

namespace foregather::plan {

/// Makes one unit of all parameters, each padded to the world size, the owner of everything.
void own_as_one_unit(Lowering& lowering, const ProcessGroup& world, DType type, DType reduced);

/// Shards that are updated together, and where each lies among them.
struct SubGroups {
  struct Place {
    std::size_t sub_group = 0;
    std::int64_t offset = 0;  ///< elements
  };
  std::vector<ZeroPartition> partitions;
  std::vector<Place> places;  ///< by shard
};

/// Cuts `shards` (elements), which lie one behind the other in `parameters` and `gradients`: a sub
/// group is closed once it holds zero.sub_group_size elements or more (_create_fp16_sub_groups).
SubGroups sub_groups(Lowering& lowering, std::span<const std::int64_t> shards,
                     const Buffer& parameters, DType type, const Buffer& gradients,
                     DType accumulated);

}  // namespace foregather::plan
