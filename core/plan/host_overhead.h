// Host time that FSDP's own Python code takes, beyond the ops, allocations and events that it
// issues (those are priced by the cost model). Where nothing else is said, values are assumptions:
// order-of-magnitude readings of published profiler traces on server CPUs of 2022-2024; no source
// states them.
#pragma once

#include <cstdint>

#include "core/base/units.h"

namespace foregather::plan::host_overhead {

inline constexpr Ns kHook = 10 * kMicrosecond;      ///< a module hook that does nothing else
inline constexpr Ns kUnshard = 30 * kMicrosecond;   ///< preparing one unit's all-gather
inline constexpr Ns kUseViews = 20 * kMicrosecond;  ///< pointing a unit's modules at its parameters
inline constexpr Ns kReduce = 40 * kMicrosecond;    ///< preparing one unit's gradient reduction

// DeepSpeed's, measured: tests/oracles/measure_zero_host.py with DeepSpeed 0.17.6 and torch 2.15 on
// an idle AMD EPYC core at 2.6 GHz, where a small eager op takes 2 µs. What those calls issue (ops,
// collectives) is taken off by estimate.
inline constexpr Ns kZeroHook = 70 * kMicrosecond;      ///< a submodule's entry, or its end
inline constexpr Ns kZeroGather = 60 * kMicrosecond;    ///< preparing one coalesced gather
inline constexpr Ns kZeroGradient = 60 * kMicrosecond;  ///< a gradient's way to its bucket

/// An Adam update of `elements` in host memory, where the `ranks` of a node share its cores. 4
/// elements a ns and node: the order of what the ZeRO-Offload paper (arXiv 2101.06840) reports of
/// its CPU-Adam on a two-socket server of 2019; not verified.
inline Ns cpu_optimizer(std::int64_t elements, std::uint32_t ranks) {
  constexpr std::int64_t kElementsANs = 4;
  return elements * static_cast<std::int64_t>(ranks) / kElementsANs;
}

}  // namespace foregather::plan::host_overhead
