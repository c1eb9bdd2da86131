#include "core/run/run.h"

#include <algorithm>

namespace foregather::run {
namespace {

template <class Row, class Record>
Row append(std::vector<Record>& rows, const Record& record) {
  rows.push_back(record);
  return Row(rows.size() - 1);
}

}  // namespace

void OpColumns::reserve(std::size_t rows) {
  const auto each = [rows](auto&... column) { (column.reserve(rows), ...); };
  each(step, stream, micro_batch, ordinal, kind, role, phase, reason, scope, unit, communicator,
       sequence, issued, start, transfer, end, alone, launch, bound_by, bound_by_previous_step,
       source, bytes, wire_bytes, flops);
}

void OpColumns::append(const OpRecord& record) {
  step.push_back(record.step);
  stream.push_back(record.stream);
  micro_batch.push_back(record.micro_batch);
  ordinal.push_back(record.ordinal);
  kind.push_back(record.kind);
  role.push_back(record.role);
  phase.push_back(record.phase);
  reason.push_back(record.reason);
  scope.push_back(record.scope);
  unit.push_back(record.unit);
  communicator.push_back(record.communicator);
  sequence.push_back(record.sequence);
  issued.push_back(record.issued);
  start.push_back(record.start);
  transfer.push_back(record.transfer);
  end.push_back(record.end);
  alone.push_back(record.alone);
  launch.push_back(record.launch);
  bound_by.push_back(record.bound_by);
  bound_by_previous_step.push_back(record.bound_by_previous_step ? 1 : 0);
  source.push_back(record.source);
  bytes.push_back(record.bytes);
  wire_bytes.push_back(record.wire_bytes);
  flops.push_back(record.flops);
}

OpRecord OpColumns::at(OpRow row) const {
  const std::size_t i = row.row();
  OpRecord record;
  record.step = step[i];
  record.stream = stream[i];
  record.micro_batch = micro_batch[i];
  record.ordinal = ordinal[i];
  record.kind = kind[i];
  record.role = role[i];
  record.phase = phase[i];
  record.reason = reason[i];
  record.scope = scope[i];
  record.unit = unit[i];
  record.communicator = communicator[i];
  record.sequence = sequence[i];
  record.issued = issued[i];
  record.start = start[i];
  record.transfer = transfer[i];
  record.end = end[i];
  record.alone = alone[i];
  record.launch = launch[i];
  record.bound_by = bound_by[i];
  record.bound_by_previous_step = bound_by_previous_step[i] != 0;
  record.source = source[i];
  record.bytes = bytes[i];
  record.wire_bytes = wire_bytes[i];
  record.flops = flops[i];
  return record;
}

ClassRow Run::add(const ClassInfo& row) { return append<ClassRow>(classes, row); }
StreamRow Run::add(const StreamInfo& row) { return append<StreamRow>(streams, row); }
CommunicatorRow Run::add(const CommunicatorInfo& row) {
  return append<CommunicatorRow>(communicators, row);
}
StepRow Run::add(const StepInfo& row) { return append<StepRow>(steps, row); }
ThreadRow Run::add(const ThreadInfo& row) { return append<ThreadRow>(threads, row); }
HostCallRow Run::add(const HostCallRecord& row) { return append<HostCallRow>(calls, row); }
OpRow Run::add(const OpRecord& row) {
  ops.append(row);
  return OpRow(ops.size() - 1);
}

OpSpan ops_of(RunView run, StepRow step) {
  const auto& column = run.ops.step;
  const auto [first, last] = std::equal_range(column.begin(), column.end(), step);
  return {static_cast<std::size_t>(first - column.begin()),
          static_cast<std::size_t>(last - column.begin())};
}

std::vector<StepRow> steps_of(RunView run, StepKind kind) {
  std::vector<StepRow> rows;
  for (std::size_t i = 0; i < run.steps.size(); ++i)
    if (run.steps[i].kind == kind) rows.emplace_back(i);
  std::stable_sort(rows.begin(), rows.end(), [&](StepRow a, StepRow b) {
    return run.steps[a.row()].rank_class < run.steps[b.row()].rank_class;
  });
  return rows;
}

}  // namespace foregather::run
