#include "traces/chrome_names.h"

#include "core/base/json_writer.h"
#include "core/run/kernel_names.h"

namespace foregather::traces {
namespace {

// As NCCL calls its kernels, up to the first underscore behind the collective.
std::string_view nccl_name(OpKind kind) {
  switch (kind) {
    case OpKind::all_gather: return "ncclKernel_AllGather";
    case OpKind::reduce_scatter: return "ncclKernel_ReduceScatter";
    case OpKind::all_reduce: return "ncclKernel_AllReduce";
    case OpKind::broadcast: return "ncclKernel_Broadcast";
    case OpKind::reduce: return "ncclKernel_Reduce_";
    case OpKind::all_to_all: return "ncclKernel_AllToAll";
    case OpKind::send_recv: return "ncclKernel_SendRecv";
    default: return "ncclKernel_Barrier";
  }
}

}  // namespace

std::string json_text(std::string_view text) {
  const std::string quoted = json_quote(text);
  return quoted.substr(1, quoted.size() - 2);
}

ChromeNames::ChromeNames(run::RunView run) : run_(run) {
  for (std::size_t i = 0; i < run.strings.size(); ++i) {
    const std::string_view text = run.text_of(StringId(i));
    texts_.push_back(json_text(text));
    misleads_.push_back(run::is_communication_kernel(text));
  }
}

bool ChromeNames::is_recorded(run::OpRow op) const {
  return run_.about.kind == run::RunKind::measured && !text(run_.ops.source[op.row()]).empty();
}

std::string_view ChromeNames::title(run::OpRow op, std::string& space) const {
  const std::size_t row = op.row();
  if (is_recorded(op)) return text(run_.ops.source[row]);
  const OpKind kind = run_.ops.kind[row];
  const StringId scope = run_.ops.scope[row];
  const bool is_copy = kind == OpKind::host_to_device || kind == OpKind::device_to_host;
  space = is_collective(kind)              ? nccl_name(kind)
          : kind == OpKind::host_to_device ? "Memcpy HtoD"
          : kind == OpKind::device_to_host ? "Memcpy DtoH"
                                           : "";
  if (!space.empty()) space += ' ';
  const bool is_named = !text(scope).empty() && (is_collective(kind) || !misleads_[scope.row()]);
  space += is_named ? text(scope) : "-";
  space += '/';
  space += name(run_.ops.phase[row]);
  if (!is_collective(kind) && !is_copy) {
    space += '/';
    space += name(kind);
  }
  return space;
}

std::string_view ChromeNames::category(run::OpRow op) const {
  const OpKind kind = run_.ops.kind[op.row()];
  if (!is_recorded(op)) {
    const bool is_copy = kind == OpKind::host_to_device || kind == OpKind::device_to_host;
    return is_copy ? "gpu_memcpy" : "kernel";
  }
  // CUPTI's names of copies and fills; kernels that copy and fill have names of their own.
  const std::string_view source = text(run_.ops.source[op.row()]);
  if (source.starts_with("Memcpy ")) return "gpu_memcpy";
  return source.starts_with("Memset ") ? "gpu_memset" : "kernel";
}

}  // namespace foregather::traces
