// Device work that is not a matrix product or a collective.
#pragma once

#include <cstdint>

#include "core/ir/graph.h"
#include "sim/cost/hardware.h"
#include "sim/cost/work.h"

namespace foregather::sim {

/// Whose kernels: FlashAttention-2 (or what stands in for it), or cuDNN's.
enum class AttentionKernels : std::uint8_t { flash, cudnn };

/// Fused attention: batch·heads × (m rows of the query × n rows of the key), head dimension
/// k. Rows of 128 queries are the blocks that SMs take in waves; short keys run below the full
/// rate. A row with more than 4.5 FLOPs a (query, key, dimension) triple is a backward: forward
/// counts 4, or 2 when causal, backward 10 or 5.
Work attention_work(const Cost& cost, const Hardware& hardware,
                    AttentionKernels kernels = AttentionKernels::flash);

/// Work bound by device memory: bytes at the kind's efficiency, or its FLOPs on vector units or its
/// elements that are found one by one where these take longer; a floor for each kernel.
Work memory_work(const Cost& cost, const Hardware& hardware);

/// Copies between host and device memory.
Work host_copy_work(const Cost& cost, const Hardware& hardware);

}  // namespace foregather::sim
