#include "core/plan/fsdp2_costs.h"

#include "core/plan/foreach_kernels.h"

namespace foregather::plan {

Fsdp2Costs fsdp2_costs(Lowering& lowering, const Fsdp2Unit& unit, const Fsdp2Types& types,
                       const ShardGroups& groups, const ProcessGroup& kept) {
  const std::size_t tensors = unit.parameters.count;
  const std::int64_t shard = unit.shard_elements;
  const std::int64_t whole = shard * groups.shard.ranks;
  const Bytes stored = size_of(types.stored);
  const Bytes gathered = size_of(types.gathered);
  const Bytes reduced = size_of(types.reduced);
  Fsdp2Costs costs;
  const auto copy = [&](DType type, Bytes read, Bytes written) {
    return lowering.copy_cost(OpKind::copy, type, read, written);
  };
  // torch._foreach_copy_; the copies out and into the reduction are one kernel of FSDP's own.
  const auto foreach_copy = [&](OpKind kind, std::int64_t elements, Bytes element) {
    return lowering.copy_cost(kind, types.gathered, elements * element, elements * gathered,
                              foreach_kernels(2, tensors, elements));
  };
  if (types.casts_in()) costs.cast_in = foreach_copy(OpKind::cast, shard, stored);
  costs.copy_in = foreach_copy(OpKind::copy, shard, gathered);
  costs.copy_out = copy(types.gathered, whole * gathered, whole * gathered);
  if (groups.shard.ranks > 1)
    costs.gather = lowering.collective_cost(OpKind::all_gather, types.gathered, whole * gathered,
                                            groups.shard.group);
  if (kept.ranks > 1) {
    const std::int64_t part = whole / kept.ranks;
    costs.regather_cast_in = foreach_copy(OpKind::copy, part, gathered);
    costs.regather_copy_in = costs.regather_cast_in;
    costs.regather =
        lowering.collective_cost(OpKind::all_gather, types.gathered, whole * gathered, kept.group);
  }

  // Gradients: chunk-cat into the reduce-scatter input, a widening cast fused.
  if (types.narrows()) {
    costs.gradient_copy_in = copy(types.gathered, whole * gathered, whole * gathered);
    costs.gradient_cast =
        lowering.copy_cost(OpKind::cast, types.reduced, whole * gathered, whole * reduced);
  } else {
    costs.gradient_copy_in = copy(types.reduced, whole * gathered, whole * reduced);
  }
  if (types.scales()) {
    costs.pre_scale =
        lowering.copy_cost(OpKind::elementwise, types.reduced, whole * reduced, whole * reduced);
    costs.post_scale =
        lowering.copy_cost(OpKind::elementwise, types.reduced, shard * reduced, shard * reduced);
  }
  if (groups.shard.ranks > 1)
    costs.reduce = lowering.collective_cost(OpKind::reduce_scatter, types.reduced, whole * reduced,
                                            groups.shard.group);
  else
    costs.local_reduce =
        lowering.copy_cost(OpKind::copy, types.reduced, shard * reduced, shard * reduced);
  if (groups.replicate.ranks > 1)
    costs.all_reduce = lowering.collective_cost(OpKind::all_reduce, types.reduced, shard * reduced,
                                                groups.replicate.group);
  if (types.casts_out())
    costs.cast_out =
        lowering.copy_cost(OpKind::cast, types.stored, shard * reduced, shard * stored);
  return costs;
}

}  // namespace foregather::plan
