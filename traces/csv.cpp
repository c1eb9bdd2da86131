#include "traces/csv.h"

#include <fmt/format.h>

#include "core/base/csv.h"
#include "core/run/key.h"
#include "core/run/replay.h"
#include "traces/memory_curves.h"

namespace foregather::traces {
namespace {

constexpr std::string_view kOps =
    "op_key,rank_class,ranks,step,step_kind,micro_batch,scope,unit,phase,kind,role,stream,"
    "communicator,issued_ns,start_ns,transfer_ns,end_ns,duration_ns,reason,bound_by,source,bytes,"
    "wire_bytes,flops,communicator_ranks,sequence,alone_ns\n";
constexpr std::string_view kMemory =
    "rank_class,step,time_ns,requested_bytes,allocated_bytes,active_bytes,reserved_bytes\n";
constexpr std::string_view kAllocations =
    "rank_class,step,name,scope,cause,bytes,block_bytes,address,allocated_ns,freed_ns,before_op,"
    "from_before,still_bound\n";

std::string key(run::RunView run, run::OpRow row) { return row ? csv_cell(op_key(run, row)) : ""; }

// The first two columns of what belongs to a step.
std::string place(run::RunView run, run::StepRow row) {
  const run::StepInfo& step = run.steps[row.row()];
  return fmt::format("{},{}", csv_cell(run.text_of(run.classes[step.rank_class.row()].name)),
                     step.number);
}

// What a recording does not say of an op is 0, in its replay as well.
std::string amount(run::RunView run, std::int64_t value) {
  if (value == 0 && run::has_recorded_ops(run.about)) return {};
  return std::to_string(value);
}

std::string line(run::RunView run, run::OpRow row) {
  const run::OpRecord op = run.ops.at(row);
  const run::StepInfo& step = run.steps[op.step.row()];
  const run::ClassInfo& rank_class = run.classes[step.rank_class.row()];
  std::string communicator, communicator_ranks, sequence;
  if (op.communicator) {
    const run::CommunicatorInfo& info = run.communicators[op.communicator.row()];
    communicator = csv_cell(run.text_of(info.name));
    communicator_ranks = std::to_string(info.ranks);
    sequence = std::to_string(op.sequence);
  }
  return fmt::format(
      "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n",
      key(run, row), csv_cell(run.text_of(rank_class.name)), rank_class.ranks.size(), step.number,
      name(step.kind), op.micro_batch, csv_cell(run.text_of(op.scope)),
      csv_cell(run.text_of(op.unit)), foregather::name(op.phase), foregather::name(op.kind),
      foregather::name(op.role), csv_cell(run.text_of(run.streams[op.stream.row()].name)),
      communicator, op.issued, op.start, op.transfer, op.end, op.end - op.transfer, name(op.reason),
      key(run, op.bound_by), csv_cell(run.text_of(op.source)), amount(run, op.bytes),
      amount(run, op.wire_bytes), amount(run, op.flops), communicator_ranks, sequence,
      op.alone == 0 ? "" : std::to_string(op.alone));
}

using KnownCurves = std::array<bool, kMemoryCurves.size()>;

KnownCurves known_curves(run::RunView run) {
  KnownCurves known;
  for (std::size_t i = 0; i < known.size(); ++i)
    known[i] = !run::has_recorded_ops(run.about) ||
               is_known(kMemoryCurves[i], run, [](const run::MemoryRecord&) { return true; });
  return known;
}

std::string line(run::RunView run, const run::MemoryRecord& point, const KnownCurves& known) {
  std::string text = fmt::format("{},{}", place(run, point.step), point.time);
  for (std::size_t i = 0; i < known.size(); ++i)
    text += known[i] ? fmt::format(",{}", point.*kMemoryCurves[i].bytes) : ",";
  return text + '\n';
}

std::string line(run::RunView run, const run::BindingRecord& binding) {
  return fmt::format("{},{},{},{},{},{},{},{},{},{},{:d},{:d}\n", place(run, binding.step),
                     csv_cell(run.text_of(binding.name)), csv_cell(run.text_of(binding.scope)),
                     foregather::name(binding.cause), binding.bytes, binding.block_bytes,
                     binding.address, binding.allocated, binding.freed, key(run, binding.before_op),
                     binding.from_before, binding.still_bound);
}

// The header, then line_of(row) for each row.
template <class LineOf>
Status write_table(std::string_view header, std::size_t rows, const LineOf& line_of,
                   const TextSink& sink) {
  constexpr std::size_t kChunk = 1 << 16;
  std::string out(header);
  for (std::size_t row = 0; row < rows; ++row) {
    out += line_of(row);
    if (out.size() < kChunk) continue;
    if (Status written = sink(out); !written) return written;
    out.clear();
  }
  return sink(out);
}

}  // namespace

Status write_csv(run::RunView run, const TextSink& sink) {
  return write_table(
      kOps, run.ops.size(), [&](std::size_t row) { return line(run, run::OpRow(row)); }, sink);
}

Status write_csv_memory(run::RunView run, const TextSink& sink) {
  if (run.memory.empty())
    return fail("the run has no memory curve, expected one whose memory was recorded");
  const KnownCurves known = known_curves(run);
  return write_table(
      kMemory, run.memory.size(),
      [&](std::size_t row) { return line(run, run.memory[row], known); }, sink);
}

Status write_csv_allocations(run::RunView run, const TextSink& sink) {
  if (run.bindings.empty())
    return fail("the run has no allocations, expected one whose memory was recorded");
  return write_table(
      kAllocations, run.bindings.size(),
      [&](std::size_t row) { return line(run, run.bindings[row]); }, sink);
}

}  // namespace foregather::traces
