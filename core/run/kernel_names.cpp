#include "core/run/kernel_names.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace foregather::run {
namespace {

constexpr std::array<std::string_view, 5> kLibraries{"nccl", "rccl", "msccl", "oneccl", "hccl"};
/// In the order in which they are looked for; without underscores they name the kind.
constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kKinds{{
    {"allgather", "allgather"},
    {"all_gather", "allgather"},
    {"reducescatter", "reducescatter"},
    {"reduce_scatter", "reducescatter"},
    {"allreduce", "allreduce"},
    {"all_reduce", "allreduce"},
    {"sendrecv", "sendrecv"},
    {"broadcast", "broadcast"},
    {"alltoall", "alltoall"},
    {"reduce_", "reduce"},
}};

std::string lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
  return lower;
}

/// Looked for in this order in names of compute kernels, in lower case.
constexpr std::array<std::pair<std::string_view, OpKind>, 42> kCompute{{
    {"bfloat16_copy", OpKind::cast},
    {"float16_copy", OpKind::cast},
    {"flash", OpKind::attention},
    {"fmha", OpKind::attention},
    {"attention", OpKind::attention},
    {"sdpa", OpKind::attention},
    {"compute_dot_do_o", OpKind::attention},
    {"convert_dq", OpKind::attention},
    {"softmax", OpKind::softmax},
    {"nll_loss", OpKind::cross_entropy},
    {"cross_entropy", OpKind::cross_entropy},
    {"multi_tensor_apply", OpKind::optimizer},
    {"adam", OpKind::optimizer},
    {"layer_norm", OpKind::norm},
    {"layernorm", OpKind::norm},
    {"rms_norm", OpKind::norm},
    {"rmsnorm", OpKind::norm},
    {"batch_norm", OpKind::norm},
    {"bn_fw", OpKind::norm},
    {"bn_bw", OpKind::norm},
    {"welford", OpKind::norm},
    {"embedding", OpKind::embedding},
    {"indexselect", OpKind::embedding},
    {"gemm", OpKind::gemm},
    {"gemv", OpKind::gemm},
    {"cutlass", OpKind::gemm},
    {"nvjet", OpKind::gemm},
    {"xmma", OpKind::gemm},
    {"conv", OpKind::gemm},
    {"winograd", OpKind::gemm},
    {"wgrad", OpKind::gemm},
    {"dgrad", OpKind::gemm},
    {"splitkreduce", OpKind::reduction},
    {"reduce", OpKind::reduction},
    {"fillfunctor", OpKind::fill},
    {"copy", OpKind::copy},
    {"catarray", OpKind::copy},
    {"elementwise", OpKind::elementwise},
    {"vectorized", OpKind::elementwise},
    {"pointwise", OpKind::elementwise},
    {"triton", OpKind::fused},
    {"spin_kernel", OpKind::sleep},
}};

// NCCL has no barriers; Chrome traces that this project writes do.
OpKind collective_kind(const std::string& text) {
  constexpr std::string_view kBarrier = "barrier";
  constexpr std::array<std::pair<std::string_view, OpKind>, 8> kCollectives{{
      {"allgather", OpKind::all_gather},
      {"reducescatter", OpKind::reduce_scatter},
      {"allreduce", OpKind::all_reduce},
      {"sendrecv", OpKind::send_recv},
      {"broadcast", OpKind::broadcast},
      {"alltoall", OpKind::all_to_all},
      {"reduce", OpKind::reduce},
      {"other", OpKind::send_recv},
  }};
  const std::string_view kind = communication_kind(text);
  if (kind == kCollectives.back().first && text.find(kBarrier) != std::string::npos)
    return OpKind::barrier;
  return std::find_if(kCollectives.begin(), kCollectives.end(),
                      [&](const auto& row) { return row.first == kind; })
      ->second;
}

/// "triton_poi_fused_…", "triton_red_fused_…"; not "triton_tem_fused_…".
bool is_merged_by_inductor(std::string_view name) {
  constexpr std::string_view kTriton = "triton_", kTemplate = "tem", kFused = "_fused_";
  if (!name.starts_with(kTriton)) return false;
  name.remove_prefix(kTriton.size());
  return name.find(kFused) == kTemplate.size() && !name.starts_with(kTemplate);
}

OpKind copy_kind(const std::string& name) {
  if (name.find("htod") != std::string::npos || name.find("host -> device") != std::string::npos)
    return OpKind::host_to_device;
  if (name.find("dtoh") != std::string::npos || name.find("device -> host") != std::string::npos)
    return OpKind::device_to_host;
  return OpKind::copy;
}

}  // namespace

bool is_communication_kernel(std::string_view name) {
  const std::string text = lower(name);
  return std::any_of(kLibraries.begin(), kLibraries.end(), [&](std::string_view library) {
    return text.find(library) != std::string::npos;
  });
}

std::string_view communication_kind(std::string_view kernel_name) {
  const std::string text = lower(kernel_name);
  for (const auto& [part, kind] : kKinds)
    if (text.find(part) != std::string::npos) return kind;
  return "other";
}

bool is_cudnn_kernel(std::string_view name) { return name.find("cudnn") != name.npos; }

std::string kernel_family(std::string_view name) {
  constexpr std::string_view kReturn = "void ";
  constexpr std::string_view kAnonymous = "(anonymous namespace)";
  if (name.starts_with(kReturn)) name.remove_prefix(kReturn.size());
  std::string family;
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') {
      ++depth;
    } else if (name[i] == '>') {
      depth = std::max(depth - 1, 0);
    } else if (depth == 0) {
      if (name.substr(i).starts_with(kAnonymous)) {
        family += kAnonymous;
        i += kAnonymous.size() - 1;
      } else if (name[i] == '(') {
        break;
      } else {
        family += name[i];
      }
    }
  }
  return family;
}

OpKind op_kind(ActivityKind kind, std::string_view name) {
  if (kind == ActivityKind::memset) return OpKind::fill;
  const std::string text = lower(name);
  if (kind == ActivityKind::memcpy) return copy_kind(text);
  if (is_communication_kernel(name)) return collective_kind(text);
  if (is_merged_by_inductor(text)) return OpKind::fused;
  const auto* const found = std::find_if(kCompute.begin(), kCompute.end(), [&](const auto& row) {
    return text.find(row.first) != std::string::npos;
  });
  return found == kCompute.end() ? OpKind::other : found->second;
}

}  // namespace foregather::run
