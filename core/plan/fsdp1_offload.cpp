#include "core/plan/fsdp1_schedule.h"
#include "core/plan/host_step.h"

namespace foregather::plan {

// pre_unshard: non_blocking, from pinned memory.
void Fsdp1Schedule::load(Fsdp1Unit& unit) {
  lowering_.alloc(unit.loaded, pre_unshard_stream_);
  scratch_.assign({reads(unit.shard), writes(unit.loaded)});
  lowering_.launch({OpKind::host_to_device,
                    Role::offload,
                    pre_unshard_stream_,
                    lowering_.copy_cost(OpKind::host_to_device, unit.types.stored, unit.shard.bytes,
                                        unit.loaded.bytes),
                    {}},
                   unit.owner, scratch_);
}

void Fsdp1Schedule::unload(const Fsdp1Unit& unit, StreamId stream) {
  scratch_.assign({reads(unit.gradient), writes(unit.host_gradient)});
  lowering_.launch({OpKind::device_to_host,
                    Role::offload,
                    stream,
                    lowering_.copy_cost(OpKind::device_to_host, unit.types.stored,
                                        unit.gradient.bytes, unit.gradient.bytes),
                    {}},
                   unit.owner, scratch_);
}

void Fsdp1Schedule::optimizer_phase() {
  std::int64_t elements = 0;
  for (const Fsdp1Unit& unit : units_)
    if (has_work(unit) && unit.is_trained) elements += unit.flat.shard;
  write_host_step(lowering_, elements);
}

}  // namespace foregather::plan
