// Matrix products on tensor cores.
#pragma once

#include "core/ir/graph.h"
#include "sim/cost/hardware.h"
#include "sim/cost/work.h"

namespace foregather::sim {

/// FLOP/s of matrix products in that type under sustained load, before efficiency. Types without
/// a unit of their own run at the next wider type's rate.
double matmul_rate(const Hardware& hardware, DType type);

/// A product of shape batch × (m×k)·(k×n). The output is cut into tiles; SMs work through them in
/// waves, so that the last wave may leave SMs idle. The best of a few tile sizes is taken, with the
/// reduction split over idle SMs where there are more SMs than tiles. Never below the time of its
/// bytes. A row without a shape counts FLOPs alone. Of 16-bit numbers, slower where n or k is not a
/// multiple of 8: operands lie by rows of that. Grows with m, n and k of one alignment.
Work gemm_work(const Cost& cost, const Hardware& hardware);

}  // namespace foregather::sim
