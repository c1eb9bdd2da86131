// What the device of one rank is rated for.
//
// A few cores play the devices of many ranks. So that the ranks do not slow each other, and a busy
// machine does not show, a device is slower than a core: an op does its work, then waits until the
// time has passed that the device is rated to take for it. What a schedule does with streams,
// events, collectives and memory is real; the speed of the device is this table.
#pragma once

#include "core/ir/graph.h"

namespace foregather::runtime {

struct Rating {
  double flops = 2e9;             ///< FLOP/s of products and of elementwise arithmetic
  double doubles = 2e9 / 6;       ///< the same in generated kernels that compute in doubles
  double memory = 1e9;            ///< B/s, read and written bytes together
  double link = 50e6;             ///< B/s that a rank sends
  double link_latency = 50'000;   ///< ns before a collective's first byte
  Bytes direct_below = 64 * KiB;  ///< smaller messages go directly, others around the ring
};

/// Bytes that one of `ranks` ranks sends.
constexpr double sent_bytes(OpKind kind, Bytes message, std::size_t ranks) {
  const auto size = static_cast<double>(message);
  const double others = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  switch (kind) {
    case OpKind::all_gather:
    case OpKind::reduce_scatter:
    case OpKind::all_to_all: return size * others;
    case OpKind::all_reduce: return 2 * size * others;
    case OpKind::barrier: return 0;
    default: return ranks > 1 ? size : 0;
  }
}

/// ns of anything but a collective. What is no product and computes in doubles takes the time of
/// its bytes and that of its operations, as on a GPU (sim/cost/roofline.h).
inline Ns rated_time(const Cost& cost, const Rating& rating) {
  if (cost.is_fixed) return cost.fixed_time;
  const double bytes =
      static_cast<double>(cost.bytes_read) + static_cast<double>(cost.bytes_written);
  const bool adds = cost.dtype == DType::f64 && cost.m == 0;
  const bool is_generated = cost.kind == OpKind::fused || cost.kind == OpKind::elementwise;
  const double memory = bytes / rating.memory,
               compute = static_cast<double>(cost.flops) /
                         (adds && is_generated ? rating.doubles : rating.flops);
  return static_cast<Ns>(1e9 * (adds ? memory + compute : memory > compute ? memory : compute));
}

/// ns of a collective from the arrival of the last rank.
inline Ns rated_time(const Cost& cost, std::size_t ranks, double link_scale, const Rating& rating) {
  if (cost.is_fixed) return cost.fixed_time;
  return static_cast<Ns>(rating.link_latency +
                         1e9 * sent_bytes(cost.kind, cost.message_bytes, ranks) /
                             (rating.link * link_scale));
}

}  // namespace foregather::runtime
