// Host time that Python code takes, beyond the ops, allocations and events that it issues (those
// are priced by the cost model). Where nothing else is said, values are assumptions:
// order-of-magnitude readings of published profiler traces on server CPUs of 2022-2024; no source
// states them.
//
// "Measured": tests/gpu/steps.py, cases 1b-small… (traces/measured/h200_steps.csv), a Llama of 16
// blocks so small that all waits for the host, PyTorch 2.11, torchao 0.18: differences between
// cases with and without what is priced, divided by 2.7. So much slower did that host (a virtual
// machine) perform plain eager ops than host.dispatch and host.launch of the hardware files say.
#pragma once

#include <cstdint>

#include "core/base/units.h"

namespace foregather::plan::host_overhead {

inline constexpr Ns kHook = 10 * kMicrosecond;      ///< a module hook that does nothing else
inline constexpr Ns kUnshard = 30 * kMicrosecond;   ///< preparing one unit's all-gather
inline constexpr Ns kUseViews = 20 * kMicrosecond;  ///< pointing a unit's modules at its parameters
inline constexpr Ns kReduce = 40 * kMicrosecond;    ///< preparing one unit's gradient reduction

// FSDP2 treats parameters one by one. Measured: blocks as units against the model as one, and both
// against no sharding.
/// A parameter's way to its unsharded tensor and back.
inline constexpr Ns kUnshardParameter = 31 * kMicrosecond;
inline constexpr Ns kReduceParameter = 4 * kMicrosecond;
/// A DTensor among the operands of the norm, and of the optimizer. Measured.
inline constexpr Ns kNormDTensor = 4 * kMicrosecond;
inline constexpr Ns kUpdateDTensor = 6 * kMicrosecond;

// Checkpointing without reentrance hooks into each tensor that autograd saves, and performs the
// forward again in Python; the policy of selective checkpointing is called for each op. Measured, a
// forward op of the block.
inline constexpr Ns kCheckpointedOp = 11 * kMicrosecond;  ///< in the forward
inline constexpr Ns kSelectedOp = 40 * kMicrosecond;      ///< in the forward, of a selective policy
inline constexpr Ns kRecomputedOp = 33 * kMicrosecond;    ///< in the backward

// A compiled function's guards and wrappers, each time it is called. Measured.
inline constexpr Ns kCompiledForward = 160 * kMicrosecond;
inline constexpr Ns kCompiledBackward = 200 * kMicrosecond;

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
