#include "core/run/run.h"

#include <algorithm>

namespace foregather::run {
namespace {

template <class Row, class Record>
Row append(std::vector<Record>& rows, const Record& record) {
  rows.push_back(record);
  return Row(rows.size() - 1);
}

// The new row of each of `count` rows that are put in the order of `less`, equal ones as they are.
template <class Row, class Less>
std::vector<Row> places(std::size_t count, Less less) {
  std::vector<std::size_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), less);
  std::vector<Row> place(count);
  for (std::size_t i = 0; i < count; ++i) place[order[i]] = Row(i);
  return place;
}

template <class Row, class Record>
void move_to(std::vector<Record>& rows, const std::vector<Row>& place) {
  std::vector<Record> moved(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) moved[place[i].row()] = std::move(rows[i]);
  rows = std::move(moved);
}

template <class Row, class Value>
void move_to(RareColumn<Value>& rows, const std::vector<Row>& place) {
  RareColumn<Value> moved;
  moved.resize(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) moved.set(place[i].row(), rows[i]);
  rows = std::move(moved);
}

template <class Row>
void follow(Row& row, const std::vector<Row>& place) {
  if (row) row = place[row.row()];
}

template <class Record>
void sort_by_step(std::vector<Record>& rows, const std::vector<StepRow>& place) {
  for (Record& row : rows) follow(row.step, place);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Record& a, const Record& b) { return a.step < b.step; });
}

template <class Record>
void sort_by_op(std::vector<Record>& rows, const std::vector<OpRow>& place) {
  for (Record& row : rows) follow(row.op, place);
  std::sort(rows.begin(), rows.end(), [](const Record& a, const Record& b) { return a.op < b.op; });
}

}  // namespace

void OpColumns::reserve(std::size_t rows) {
  const auto each = [rows](auto&... column) { (column.reserve(rows), ...); };
  each(step, stream, micro_batch, ordinal, kind, role, phase, reason, scope, unit, communicator,
       sequence, issued, start, transfer, end, alone, bound_by, bound_by_previous_step, source,
       bytes, wire_bytes, flops);
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

void sort_steps(Run& run) {
  const auto step_at = places<StepRow>(run.steps.size(), [&](std::size_t a, std::size_t b) {
    const StepInfo &x = run.steps[a], &y = run.steps[b];
    return x.rank_class != y.rank_class ? x.rank_class < y.rank_class : x.number < y.number;
  });
  move_to(run.steps, step_at);
  sort_by_step(run.bindings, step_at);
  sort_by_step(run.segments, step_at);
  sort_by_step(run.memory, step_at);
  sort_by_step(run.causes, step_at);
  sort_by_step(run.failures, step_at);
  for (StepRow& step : run.ops.step) follow(step, step_at);
  const auto op_at = places<OpRow>(run.ops.size(), [&](std::size_t a, std::size_t b) {
    return run.ops.step[a] < run.ops.step[b];
  });
  const auto each = [&](auto&... column) { (move_to(column, op_at), ...); };
  OpColumns& ops = run.ops;
  each(ops.step, ops.stream, ops.micro_batch, ops.ordinal, ops.kind, ops.role, ops.phase,
       ops.reason, ops.scope, ops.unit, ops.communicator, ops.sequence, ops.issued, ops.start,
       ops.transfer, ops.end, ops.alone, ops.launch, ops.bound_by, ops.bound_by_previous_step,
       ops.source, ops.bytes, ops.wire_bytes, ops.flops);
  for (OpRow& row : ops.bound_by) follow(row, op_at);
  for (StepInfo& step : run.steps) follow(step.peak_at, op_at);
  for (BindingRecord& row : run.bindings) follow(row.before_op, op_at);
  sort_by_op(run.collectives, op_at);
  sort_by_op(run.kernel_launches, op_at);
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
