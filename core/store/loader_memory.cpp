#include <limits>

#include "core/store/loader.h"

namespace foregather::store {

using namespace foregather::run;

Status Loader::bindings() {
  return each_row("binding",
                  "id, step, name, scope, cause, bytes, block_bytes, address, allocated_ns, "
                  "freed_ns, before_op, from_before, still_bound",
                  [&](CellReader& row, std::size_t number) {
                    row.id(number);
                    BindingRecord binding;
                    binding.step = row.row<StepRow>(run_.steps.size());
                    binding.name = string(row);
                    binding.scope = string(row);
                    binding.cause = row.choice(Cause::unknown);
                    binding.bytes = row.integer();
                    binding.block_bytes = row.within(0, std::numeric_limits<Bytes>::max());
                    binding.address = static_cast<std::uint64_t>(row.integer());
                    binding.allocated = row.time();
                    binding.freed = row.time();
                    binding.before_op = row.maybe_row<OpRow>(run_.ops.size());
                    binding.from_before = row.flag();
                    binding.still_bound = row.flag();
                    run_.bindings.push_back(binding);
                  });
}

Status Loader::segments() {
  return each_row("segment", "id, step, stream, change, large, expandable, time_ns, address, bytes",
                  [&](CellReader& row, std::size_t number) {
                    row.id(number);
                    SegmentRecord segment;
                    segment.step = row.row<StepRow>(run_.steps.size());
                    segment.stream = row.row<StreamRow>(run_.streams.size());
                    segment.change = row.choice(SegmentChange::unmapped);
                    segment.large = row.flag();
                    segment.expandable = row.flag();
                    segment.time = row.time();
                    segment.address = static_cast<std::uint64_t>(row.integer());
                    segment.bytes = row.integer();
                    run_.segments.push_back(segment);
                  });
}

Status Loader::memory() {
  return each_row("memory", "id, step, time_ns, requested, allocated, active, reserved",
                  [&](CellReader& row, std::size_t number) {
                    row.id(number);
                    MemoryRecord point;
                    point.step = row.row<StepRow>(run_.steps.size());
                    point.time = row.time();
                    point.requested = row.integer();
                    point.allocated = row.integer();
                    point.active = row.integer();
                    point.reserved = row.integer();
                    run_.memory.push_back(point);
                  });
}

Status Loader::causes() {
  return each_row("peak_cause", "id, step, cause, bytes", [&](CellReader& row, std::size_t number) {
    row.id(number);
    CauseRecord cause;
    cause.step = row.row<StepRow>(run_.steps.size());
    cause.cause = row.choice(Cause::unknown);
    cause.bytes = row.integer();
    run_.causes.push_back(cause);
  });
}

Status Loader::failures() {
  return each_row("out_of_memory",
                  "id, step, name, bytes, time_ns, micro_batch, scope, phase, kind, ordinal",
                  [&](CellReader& row, std::size_t number) {
                    row.id(number);
                    FailureRecord failure;
                    failure.step = row.row<StepRow>(run_.steps.size());
                    failure.name = string(row);
                    failure.bytes = row.integer();
                    failure.time = row.time();
                    failure.micro_batch = row.number<std::uint16_t>();
                    failure.scope = string(row);
                    failure.phase = row.choice(Phase::other);
                    failure.kind = row.choice(kLastOpKind);
                    failure.ordinal = row.number<std::uint32_t>();
                    run_.failures.push_back(failure);
                  });
}

Status Loader::inferred_causes() {
  return each_row(
      "inferred_causes", "step",
      [&](CellReader& row, std::size_t) {
        const auto step = row.row<StepRow>(run_.steps.size());
        if (row.ok()) run_.steps[step.row()].causes_inferred = true;
      },
      "step");
}

}  // namespace foregather::store
