// What recordings say of the time that pieces of work take.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/run/recording.h"
#include "core/run/work_sample.h"

namespace foregather::rebuild {

struct WorkSamples {
  std::vector<run::WorkSample> rows;  ///< distinct, in the order of is_before()
  std::int64_t activities = 0;        ///< device activities that they stand for
  std::int64_t empty = 0;             ///< activities of no length, left out
  std::int64_t with_shapes = 0;       ///< activities whose operator has recorded shapes
};

/// The device activities of the recordings by (kernel, shape). The shape is what the innermost
/// operator around the launch got as arguments, where the profiler recorded them, with the threads
/// of the kernel's grid; of a copy its bytes; of a collective its message and its ranks.
///
/// `has_cost` where the operator's arguments say all that the work is: products (aten::mm and its
/// relatives, of which the sizes give m, n and k), attention of FlashAttention and cuDNN, operators
/// of one memory-bound kernel (what they read are their tensors, what they write is as large as the
/// largest), copies, fills, collectives of known size. n log n.
WorkSamples work_samples(std::span<const run::Recording* const> recordings);

}  // namespace foregather::rebuild
