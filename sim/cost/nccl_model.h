// NCCL's own estimate of a collective, and with it NCCL's choice of algorithm and protocol.
#pragma once

#include <array>
#include <optional>

#include "core/base/units.h"
#include "core/ir/kinds.h"
#include "sim/cost/nccl_tables.h"
#include "sim/cost/nccl_topology.h"

namespace foregather::sim {

/// t = latency + bytes / bandwidth, in µs and GB/s of the message as NCCL counts it (all-gather and
/// reduce-scatter: the whole buffer). bandwidth 0: not available.
struct NcclEstimate {
  double latency = 0;
  double bandwidth = 0;
};

struct NcclChoice {
  NcclAlgorithm algorithm = NcclAlgorithm::ring;
  NcclProtocol protocol = NcclProtocol::simple;

  bool operator==(const NcclChoice&) const = default;
};

/// The tuning table of one communicator for one collective (all_gather, reduce_scatter, all_reduce,
/// broadcast or reduce), as NCCL computes it at initialisation: src/graph/tuning.cc. PAT and
/// CollNet are left out, because NCCL picks PAT only with one GPU a node and CollNet only with a
/// plug-in. Cost: a hundred floating-point operations to build, none to ask.
class NcclTuning {
 public:
  NcclTuning(const NcclTopology& topology, const Hardware& hardware, OpKind collective);

  /// Without the corrections that depend on the size.
  const NcclEstimate& at(NcclAlgorithm algorithm, NcclProtocol protocol) const {
    return table_[static_cast<std::size_t>(algorithm)][static_cast<std::size_t>(protocol)];
  }

  /// With them. `bytes` ≥ 1. Tree factors are interpolated between the powers of two at which NCCL
  /// states them, so that an estimate never falls when the message grows.
  NcclEstimate corrected(NcclChoice choice, Bytes bytes) const;

  /// The pair with the least estimate; ties go to the first in table order.
  NcclChoice choose(Bytes bytes) const;

  /// CTAs that NCCL launches for a message: it takes channels away while each thread would have too
  /// little to do.
  int channels(NcclChoice choice, Bytes bytes) const;

  /// Bytes of a message for which it takes one channel; not of NVLS, whose channels are fixed.
  Bytes channel_part(NcclChoice choice) const;

  const NcclTopology& topology() const { return topology_; }
  OpKind collective() const { return collective_; }
  /// Steps of the ring, and the factor from bus to algorithm bandwidth of ring-like algorithms.
  int ring_steps() const;
  double ring_ratio() const;
  /// Share of a message that a step of the ring moves: all of it in a chain.
  double ring_part() const;
  /// µs of a chain's transfers between nodes beyond the one that NCCL's estimate, which chooses
  /// protocols, counts: each node hands on what it got. Within a node the published table of a
  /// broadcast shows no more than counted. 0 of rings and trees.
  double uncounted_latency(NcclProtocol protocol) const {
    return uncounted_[static_cast<std::size_t>(protocol)];
  }
  /// Transfers between nodes that follow one another, as NCCL's latency counts them: of a chain,
  /// which broadcast and reduce are, one. 0 on one node.
  int inter_hops(NcclAlgorithm algorithm) const;

 private:
  void fill_ring();
  void fill_tree();
  void fill_nvls();
  std::size_t node_column() const;
  bool has(NcclProtocol protocol) const;
  double hop(NcclHop kind, NcclAlgorithm algorithm, NcclProtocol protocol) const;
  double base(NcclAlgorithm algorithm, NcclProtocol protocol) const;
  NcclEstimate& slot(NcclAlgorithm algorithm, NcclProtocol protocol);

  NcclTopology topology_;
  const NcclTables* tables_;
  Generation generation_;
  double nic_latency_;  ///< µs
  OpKind collective_;
  std::array<std::array<NcclEstimate, kNcclProtocols>, kNcclAlgorithms> table_{};
  std::array<double, kNcclProtocols> uncounted_{};
};

}  // namespace foregather::sim
