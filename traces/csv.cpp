#include "traces/csv.h"

#include <fmt/format.h>

#include "core/run/key.h"

namespace foregather::traces {
namespace {

constexpr std::string_view kHeader =
    "op_key,rank_class,ranks,step,step_kind,micro_batch,scope,unit,phase,kind,role,stream,"
    "communicator,issued_ns,start_ns,transfer_ns,end_ns,duration_ns,reason,bound_by,source,bytes,"
    "wire_bytes,flops\n";

// Quoted where a comma, a quote or a line end demands it.
std::string cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

std::string line(run::RunView run, run::OpRow row) {
  const run::OpRecord op = run.ops.at(row);
  const run::StepInfo& step = run.steps[op.step.row()];
  const run::ClassInfo& rank_class = run.classes[step.rank_class.row()];
  const std::string communicator =
      op.communicator ? cell(run.text_of(run.communicators[op.communicator.row()].name)) : "";
  return fmt::format(
      "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n",
      cell(op_key(run, row)), cell(run.text_of(rank_class.name)), rank_class.ranks.size(),
      step.number, name(step.kind), op.micro_batch, cell(run.text_of(op.scope)),
      cell(run.text_of(op.unit)), foregather::name(op.phase), foregather::name(op.kind),
      foregather::name(op.role), cell(run.text_of(run.streams[op.stream.row()].name)), communicator,
      op.issued, op.start, op.transfer, op.end, op.end - op.transfer, name(op.reason),
      op.bound_by ? cell(op_key(run, op.bound_by)) : "", cell(run.text_of(op.source)), op.bytes,
      op.wire_bytes, op.flops);
}

}  // namespace

Status write_csv(run::RunView run, const TextSink& sink) {
  constexpr std::size_t kChunk = 1 << 16;
  std::string out(kHeader);
  for (std::size_t row = 0; row < run.ops.size(); ++row) {
    out += line(run, run::OpRow(row));
    if (out.size() < kChunk) continue;
    if (Status written = sink(out); !written) return written;
    out.clear();
  }
  return sink(out);
}

}  // namespace foregather::traces
