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

/// fp32 Adam's update of an element in host memory: reads parameter, gradient and two states,
/// writes parameter and states, 4 bytes each.
inline constexpr Bytes kAdamBytes = 28;

/// A pass that moves so many bytes to and from host memory, where the `ranks` of a node share it.
/// 112 bytes a ns and node, fp32 Adam's of 4 elements: the order of what the ZeRO-Offload paper
/// (arXiv 2101.06840) reports of its CPU-Adam on a two-socket server of 2019; not verified.
inline Ns cpu_pass(Bytes moved, std::uint32_t ranks) {
  constexpr Bytes kBytesANs = 4 * kAdamBytes;
  return moved * static_cast<Bytes>(ranks) / kBytesANs;
}

}  // namespace foregather::plan::host_overhead
