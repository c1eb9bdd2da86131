// How Nsight Systems' enumerations read as names; where torch.profiler has a name, that one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace foregather::traces {

/// "Memcpy HtoD (Pageable -> Device)": ENUM_CUDA_MEMCPY_OPER and twice ENUM_CUDA_MEM_KIND.
std::string nsys_copy_name(std::int64_t copy_kind, std::int64_t from_kind, std::int64_t to_kind);
/// "Memset (Device)".
std::string nsys_fill_name(std::int64_t memory_kind);
/// "Stream Wait Event": ENUM_CUPTI_SYNC_TYPE.
std::string_view nsys_sync_name(std::int64_t sync_type);
/// "cudaLaunchKernel" of "cudaLaunchKernel_v7000"; the "_v2" of the driver's calls stays.
std::string_view nsys_call_name(std::string_view name);

}  // namespace foregather::traces
