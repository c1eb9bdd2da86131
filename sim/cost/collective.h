// Collectives: NCCL's estimate, and what measurements add to it.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ir/graph.h"
#include "sim/cost/hardware.h"
#include "sim/cost/nccl_model.h"
#include "sim/cost/work.h"

namespace foregather::sim {

struct CollectiveWork {
  Work work;
  NcclChoice choice;
  bool is_nccl_choice = false;  ///< false: a copy, or point-to-point traffic, without a choice
};

/// Prices collectives of one machine. Tuning tables are built once per (collective, ranks, nodes).
///
///   time = max(floor, exposed·floor + latency·slowdown + bytes / bandwidth + fill)
///
/// Latency and bandwidth are NCCL's, the bandwidth capped by what its links were measured to carry;
/// fill is the pipeline's exposed slice of a Simple ring. The least over algorithms and protocols
/// is taken, so a price never falls when the message grows. `link_scale` multiplies every bandwidth
/// and no latency.
class CollectivePricer {
 public:
  CollectivePricer(const Hardware& hardware, double link_scale);

  /// `bytes` is Cost::message_bytes. One rank: a copy on the device.
  CollectiveWork price(OpKind kind, Bytes bytes, std::uint32_t ranks, std::uint32_t nodes);

 private:
  const NcclTuning& tuning(OpKind kind, int ranks, int nodes);
  /// Algorithm bandwidth in B/ns that links allow: the measured share of NCCL's own.
  double achievable(const NcclTuning& tuning, NcclChoice choice, double nccl_bandwidth) const;
  /// ns before and between transfers, for NCCL's latency in µs.
  double started(double latency_us) const;
  double time(const NcclTuning& tuning, NcclChoice choice, Bytes bytes) const;
  CollectiveWork ring_like(OpKind kind, Bytes bytes, int ranks, int nodes);
  CollectiveWork point_to_point(OpKind kind, Bytes bytes, int ranks, int nodes);
  CollectiveWork local_copy(Bytes bytes) const;

  const Hardware& hardware_;
  double link_scale_;
  std::vector<NcclTuning> tunings_;
};

}  // namespace foregather::sim
