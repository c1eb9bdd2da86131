// Host time that FSDP's own Python code takes, beyond the ops, allocations and events that it
// issues (those are priced by the cost model). All values are assumptions: order-of-magnitude
// readings of published profiler traces on server CPUs of 2022-2024; no source states them.
#pragma once

#include <cstdint>

#include "core/base/units.h"

namespace foregather::plan::host_overhead {

inline constexpr Ns kHook = 10 * kMicrosecond;      ///< a module hook that does nothing else
inline constexpr Ns kUnshard = 30 * kMicrosecond;   ///< preparing one unit's all-gather
inline constexpr Ns kUseViews = 20 * kMicrosecond;  ///< pointing a unit's modules at its parameters
inline constexpr Ns kReduce = 40 * kMicrosecond;    ///< preparing one unit's gradient reduction

/// An Adam update of `elements` in host memory, where the `ranks` of a node share its cores. 4
/// elements a ns and node: the order of what the ZeRO-Offload paper (arXiv 2101.06840) reports of
/// its CPU-Adam on a two-socket server of 2019; not verified.
inline Ns cpu_optimizer(std::int64_t elements, std::uint32_t ranks) {
  constexpr std::int64_t kElementsANs = 4;
  return elements * static_cast<std::int64_t>(ranks) / kElementsANs;
}

}  // namespace foregather::plan::host_overhead
