#include "core/plan/zero3_shards.h"

namespace foregather::plan {

void own_as_one_unit(Lowering& lowering, const ProcessGroup& world, DType type, DType reduced) {
  const std::int64_t ranks = world.ranks;
  Unit unit;
  unit.scope = lowering.root.scope;
  unit.group = world.group;
  unit.parameters = lowering.model.parameters;
  for (const ShardedParameter& parameter : lowering.layout.parameters)
    unit.padded_elements += (parameter.elements + ranks - 1) / ranks * ranks;
  unit.stored = unit.gathered = type;
  unit.reduced = reduced;
  lowering.owners.assign(lowering.layout.units.size(), {unit.scope, lowering.builder.unit(unit)});
}

SubGroups sub_groups(Lowering& lowering, std::span<const std::int64_t> shards,
                     const Buffer& parameters, DType type, const Buffer& gradients,
                     DType accumulated) {
  SubGroups groups;
  std::int64_t begin = 0, elements = 0;
  std::size_t members = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    groups.places.push_back({groups.partitions.size(), elements});
    elements += shards[i];
    ++members;
    if (elements < lowering.workload.zero.sub_group_size && i + 1 < shards.size()) continue;
    ZeroPartition partition;
    partition.elements = elements;
    partition.parameters = slice(lowering, parameters, begin, elements, type);
    partition.gradients = slice(lowering, gradients, begin, elements, accumulated);
    partition.flattens = members > 1;
    groups.partitions.push_back(partition);
    begin += elements;
    elements = 0;
    members = 0;
  }
  return groups;
}

}  // namespace foregather::plan
