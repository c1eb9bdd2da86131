#include "core/plan/fsdp2_costs.h"

#include "core/plan/foreach_kernels.h"

namespace foregather::plan {

Fsdp2Costs fsdp2_costs(Lowering& lowering, const Fsdp2Unit& unit, const Fsdp2Types& types,
                       const ShardGroups& groups, const ProcessGroup& kept) {
  const std::size_t tensors = unit.parameters.count;
  const std::int64_t ranks = groups.shard.ranks;
  const Bytes stored = size_of(types.stored);
  const Bytes gathered = size_of(types.gathered);
  const Bytes gradient = size_of(types.gradient());
  const Bytes reduced = size_of(types.reduced);
  Fsdp2Costs costs;
  const auto copy = [&](DType type, Bytes read, Bytes written) {
    return lowering.copy_cost(OpKind::copy, type, read, written);
  };
  // torch._foreach_copy_; the copies out and into the reduction are one kernel of FSDP's own.
  const auto foreach_copy = [&](OpKind kind, std::int64_t elements, Bytes read, Bytes written) {
    return lowering.copy_cost(kind, types.gathered, read, written,
                              foreach_kernels(2, tensors, elements));
  };
  const std::int64_t all = unit.shard_elements;
  const Bytes own = unit.gathered_bytes;
  const bool has_f8 = own != all * gathered;
  // torchao computes the scales of a unit's float8 weights in one more pass.
  if (types.casts_in() || has_f8)
    costs.cast_in = foreach_copy(OpKind::cast, all, all * stored * (has_f8 ? 2 : 1), own);
  costs.copy_in = foreach_copy(OpKind::copy, all, own, own);
  costs.copy_out = copy(types.gathered, own * ranks, own * ranks);
  if (groups.shard.ranks > 1)
    costs.gather = lowering.collective_cost(OpKind::all_gather, has_f8 ? DType::u8 : types.gathered,
                                            own * ranks, groups.shard.group);
  if (kept.ranks > 1) {
    const Bytes part = own * ranks / kept.ranks;
    costs.regather_cast_in = foreach_copy(OpKind::copy, all * ranks / kept.ranks, part, part);
    costs.regather_copy_in = costs.regather_cast_in;
    costs.regather = lowering.collective_cost(
        OpKind::all_gather, has_f8 ? DType::u8 : types.gathered, own * ranks, kept.group);
  }
  if (unit.trained == 0) return costs;
  const std::int64_t shard = unit.trained_elements;
  const std::int64_t whole = shard * ranks;

  // Gradients: chunk-cat into the reduce-scatter input, a widening cast fused.
  const auto chunk_cat = [&](DType type, Bytes read, Bytes written) {
    Cost cost;
    cost.kind = OpKind::copy;
    cost.dtype = type;
    cost.bytes_read = read;
    cost.bytes_written = written;
    cost.batch = ranks;
    return lowering.builder.cost(cost);
  };
  costs.gradient_copy_in = chunk_cat(types.reduced, whole * gradient, whole * reduced);
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
