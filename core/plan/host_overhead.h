// Host time that FSDP's own Python code takes, beyond the ops, allocations and events that it
// issues (those are priced by the cost model). All values are assumptions: order-of-magnitude
// readings of published profiler traces on server CPUs of 2022-2024; no source states them.
#pragma once

#include "core/base/units.h"

namespace foregather::plan::host_overhead {

inline constexpr Ns kHook = 10 * kMicrosecond;      ///< a module hook that does nothing else
inline constexpr Ns kUnshard = 30 * kMicrosecond;   ///< preparing one unit's all-gather
inline constexpr Ns kUseViews = 20 * kMicrosecond;  ///< pointing a unit's modules at its parameters
inline constexpr Ns kReduce = 40 * kMicrosecond;    ///< preparing one unit's gradient reduction

}  // namespace foregather::plan::host_overhead
