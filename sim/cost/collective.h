// Collectives: NCCL's estimate, and what measurements add to it.
#pragma once

#include <cstdint>
#include <utility>
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

/// Prices collectives of one machine.
///
///   time = max(floor, latency·slowdown) + channels·start + bytes / bandwidth + fill
///
/// Latency and bandwidth are NCCL's for the algorithm and protocol that NCCL chooses, the bandwidth
/// capped by what its links were measured to carry; start is what each channel costs, fill the
/// exposed part of NVLS, and what hops between nodes hold back until it is whole. Where NCCL
/// changes its choice too late, so that a larger message would be faster, the price is that of the
/// larger one: a price never falls when the message grows. `link_scale` multiplies every bandwidth
/// and no latency.
class CollectivePricer {
 public:
  CollectivePricer(const Hardware& hardware, double link_scale);

  /// `bytes` is Cost::message_bytes. One rank: a copy on the device.
  CollectiveWork price(OpKind kind, Bytes bytes, std::uint32_t ranks, std::uint32_t nodes);

 private:
  /// From here to the next range NCCL makes one choice.
  struct Range {
    Bytes from = 1;
    NcclChoice choice;
    double most = 0;  ///< ns: the least time at which a later range starts
  };
  struct Communicator {
    NcclTuning tuning;          ///< by which NCCL chooses
    NcclTuning carried;         ///< the same at the rates of the adapters, which prices
    std::vector<Range> ranges;  ///< by size; the first starts at 1 byte
  };

  /// Made once per (collective, ranks, nodes): some microseconds. Valid until the next call.
  const Communicator& communicator(OpKind kind, int ranks, int nodes);
  std::vector<Range> ranges(const Communicator& known) const;
  /// Algorithm bandwidth in B/ns that links allow: the measured share of NCCL's own.
  double achievable(const NcclTuning& tuning, NcclChoice choice, double nccl_bandwidth) const;
  /// B/ns that a GPU's adapters carry.
  double adapter() const;
  /// The same of all GPUs of a node.
  double adapters(const NcclTopology& topology) const;
  /// ns of a Simple tree between nodes: the first chunk of each channel crosses hop after hop, up
  /// and down the chain of each node's GPUs as well, the others follow it.
  double streamed(const NcclTuning& carried, double bytes) const;
  /// ns that LL takes longer than NCCL says: each hop between nodes waits for the whole message, up
  /// to a step of each channel, and where it is too long to be sent at once, for its receiver.
  double held(const Communicator& known, NcclChoice choice, Bytes bytes) const;
  /// How much longer latencies are than NCCL says.
  double slowdown(int nodes) const;
  /// ns before and between transfers.
  double started(double latency_us, int channels) const;
  double time(const Communicator& known, NcclChoice choice, Bytes bytes) const;
  /// NCCL's choice and its ns; with faster links the best of those that NCCL moves on to.
  std::pair<NcclChoice, double> chosen(const Communicator& known, Bytes bytes) const;
  CollectiveWork ring_like(OpKind kind, Bytes bytes, int ranks, int nodes);
  CollectiveWork point_to_point(OpKind kind, Bytes bytes, int ranks, int nodes);
  CollectiveWork local_copy(Bytes bytes) const;

  const Hardware& hardware_;
  double link_scale_;
  std::vector<Communicator> communicators_;
};

}  // namespace foregather::sim
