// What the names of kernels and copies say about them.
#pragma once

#include <string>
#include <string_view>

#include "core/ir/kinds.h"
#include "core/run/recording.h"

namespace foregather::run {

/// Communication kernels are those whose name has one of nccl, rccl, msccl, oneccl, hccl in any
/// case; every other kernel is compute. Copies and fills are neither.
bool is_communication_kernel(std::string_view name);
/// Which collective, by the name of its kernel: "allgather", "reducescatter", "allreduce",
/// "sendrecv", "broadcast", "alltoall", "reduce", else "other".
std::string_view communication_kind(std::string_view kernel_name);

/// The name without template arguments, parameters and a return type "void": what the kernels of
/// one template share.
std::string kernel_family(std::string_view name);

/// cuDNN's kernels have its name in theirs, in lower case.
bool is_cudnn_kernel(std::string_view name);

/// The kind of op that a device activity is, by its name: a guess for compute kernels, as good as
/// the names that libraries give; `other` where they say nothing. What TorchInductor merged is
/// `fused`, whatever operators the name lists, but for its templates of products and attention.
OpKind op_kind(ActivityKind kind, std::string_view name);

}  // namespace foregather::run
