#include "core/plan/fsdp2_schedule.h"
#include "core/plan/host_step.h"

namespace foregather::plan {

// FSDPParam.all_gather_inputs: non_blocking, from pinned memory.
Buffer Fsdp2Schedule::load(std::uint32_t row, StreamId stream) {
  const Buffer& shard = shards_[row];
  const Buffer& loaded = loaded_[row];
  lowering_.alloc(loaded, stream);
  const std::vector accesses{reads(shard), writes(loaded)};
  lowering_.launch(
      {OpKind::host_to_device,
       Role::offload,
       stream,
       lowering_.copy_cost(OpKind::host_to_device, types_.stored, shard.bytes, loaded.bytes),
       {}},
      units_[lowering_.layout.unit_of_parameter[row]].owner, accesses);
  return loaded;
}

// foreach_reduce: parameter by parameter; a gradient that is added to another one on the host is
// copied synchronously.
void Fsdp2Schedule::unload(Fsdp2Unit& unit, StreamId stream, bool adds) {
  Bytes offset = 0;
  for (std::uint32_t row = unit.parameters.first; row < unit.parameters.end(); ++row) {
    if (!is_trained(row)) continue;
    const Bytes bytes = shards_[row].bytes;
    const std::vector accesses{reads(unit.gradient, offset, bytes),
                               writes(unit.host_gradient, offset, bytes)};
    lowering_.launch({OpKind::device_to_host,
                      Role::offload,
                      stream,
                      lowering_.copy_cost(OpKind::device_to_host, types_.stored, bytes, bytes),
                      {}},
                     unit.owner, accesses);
    if (adds) lowering_.builder.host_wait_stream(stream);
    offset += bytes;
  }
}

void Fsdp2Schedule::optimizer_phase() {
  std::int64_t elements = 0;
  for (const Fsdp2Unit& unit : units_) elements += unit.trained_elements;
  write_host_step(lowering_, elements);
}

}  // namespace foregather::plan
