// Prices of an FSDP2 unit's copies and collectives.
#pragma once

#include "core/plan/fsdp2_unit.h"

namespace foregather::plan {

/// `parameters` tensors are copied, `kept` is the smaller group of an integer reshard.
Fsdp2Costs fsdp2_costs(Lowering& lowering, const Fsdp2Unit& unit, const Fsdp2Types& types,
                       const ShardGroups& groups, const ProcessGroup& kept);

}  // namespace foregather::plan
