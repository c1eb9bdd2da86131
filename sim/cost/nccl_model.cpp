#include "sim/cost/nccl_model.h"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace foregather::sim {

namespace {

using enum NcclAlgorithm;
using enum NcclProtocol;

constexpr std::array kProtocols{ll, ll128, simple};

/// floor(log2(x)) of x ≥ 1.
int log2_floor(std::uint64_t x) { return static_cast<int>(std::bit_width(x)) - 1; }

bool gathers(OpKind kind) { return kind == OpKind::all_gather || kind == OpKind::reduce_scatter; }

bool is_chain(OpKind kind) { return kind == OpKind::broadcast || kind == OpKind::reduce; }

}  // namespace

NcclTuning::NcclTuning(const NcclTopology& topology, const Hardware& hardware, OpKind collective)
    : topology_(topology),
      tables_(&nccl_tables(static_cast<int>(hardware.nccl.version))),
      generation_(hardware.generation()),
      nic_latency_(hardware.inter.latency / 1000),
      collective_(collective) {
  fill_ring();
  if (collective == OpKind::all_reduce) fill_tree();
  if (collective == OpKind::all_reduce || gathers(collective)) fill_nvls();
}

std::size_t NcclTuning::node_column() const {
  return static_cast<std::size_t>(std::min(topology_.nodes, 3) - 1);
}

bool NcclTuning::has(NcclProtocol protocol) const {
  return protocol == simple || (protocol == ll ? topology_.ll : topology_.ll128);
}

double NcclTuning::hop(NcclHop kind, NcclAlgorithm algorithm, NcclProtocol protocol) const {
  return tables_->hop_latency[static_cast<std::size_t>(kind)][static_cast<std::size_t>(algorithm)]
                             [static_cast<std::size_t>(protocol)];
}

double NcclTuning::base(NcclAlgorithm algorithm, NcclProtocol protocol) const {
  return tables_
      ->base_latency[static_cast<std::size_t>(algorithm)][static_cast<std::size_t>(protocol)];
}

NcclEstimate& NcclTuning::slot(NcclAlgorithm algorithm, NcclProtocol protocol) {
  return table_[static_cast<std::size_t>(algorithm)][static_cast<std::size_t>(protocol)];
}

int NcclTuning::ring_steps() const {
  const int n = topology_.ranks;
  if (collective_ == OpKind::all_reduce) return 2 * (n - 1);
  return gathers(collective_) ? n - 1 : n;
}

double NcclTuning::ring_ratio() const {
  return topology_.ranks / static_cast<double>(ring_steps());
}

double NcclTuning::ring_part() const { return is_chain(collective_) ? 1.0 : 1.0 / topology_.ranks; }

int NcclTuning::inter_hops(NcclAlgorithm algorithm) const {
  const int nodes = topology_.nodes;
  if (nodes == 1) return 0;
  if (algorithm != ring) return 2 * log2_floor(static_cast<std::uint64_t>(nodes));
  if (is_chain(collective_)) return 1;
  return (collective_ == OpKind::all_reduce ? 2 : 1) * (nodes - 1);
}

void NcclTuning::fill_ring() {
  const NcclTopology& t = topology_;
  const auto generation = static_cast<std::size_t>(generation_);
  const double bus = t.ring.channels * (t.nodes <= 2 ? t.ring.intra : t.ring.inter);
  const int steps = ring_steps();
  const int inter_steps = inter_hops(ring);
  const bool chain = is_chain(collective_);
  // Multi-node LL limits are rows by CPU vendor in NCCL: row 0 stands for Intel and others.
  const double ll_max =
      t.nodes == 1 ? tables_->ll_max[generation][0] : tables_->ll_max[0][node_column()];

  for (NcclProtocol protocol : kProtocols) {
    if (!has(protocol)) continue;
    double bandwidth = bus;
    if (protocol == ll) bandwidth = std::min(ll_max, bus / 2);
    if (protocol == ll128) {
      bandwidth = std::min(
          0.92 * bus, t.ring.channels * tables_->channel_ring_ll128[generation][node_column()]);
    }
    const double intra = hop(t.hop, ring, protocol);
    double inter = hop(NcclHop::net, t.ranks_per_node() == 1 ? tree : ring, protocol);
    inter += nic_latency_ * (protocol == simple ? 2 : 1);
    const double overhead = t.nodes > 1 ? (protocol == simple ? 3.0 : 1.0) : 0.0;
    double latency = base(ring, protocol);
    if (chain) {
      latency += t.nodes > 1 ? inter : intra;
      uncounted_[static_cast<std::size_t>(protocol)] = std::max(t.nodes - 2, 0) * inter;
    } else {
      latency += (steps - inter_steps) * std::max(intra, overhead) + inter_steps * inter;
    }
    slot(ring, protocol) = {latency, bandwidth * ring_ratio()};
  }
}

void NcclTuning::fill_tree() {
  const NcclTopology& t = topology_;
  const auto generation = static_cast<std::size_t>(generation_);
  const std::size_t column = node_column();
  const double channels = t.tree.channels;
  const double bus = std::min(0.92 * channels * (t.nodes <= 2 ? t.tree.intra : t.tree.inter),
                              channels * tables_->channel_tree[generation][column]);
  const double ll_max = t.nodes == 1 ? tables_->ll_max[generation][0] : tables_->ll_max[0][column];

  for (NcclProtocol protocol : kProtocols) {
    if (!has(protocol)) continue;
    double bandwidth = bus;
    if (protocol == ll) bandwidth = std::min(bus / 3.8, ll_max);
    if (protocol == ll128) {
      bandwidth = std::min(bus * (t.nodes == 1 ? 7.0 / 9.0 : 120.0 / 128.0),
                           channels * tables_->channel_tree_ll128[generation][column]);
    }
    double inter = hop(NcclHop::net, tree, protocol);
    inter += nic_latency_ * (protocol == simple ? 2 : 1);
    const double hops_intra = t.ranks / static_cast<double>(t.nodes) - 1;
    const double latency = base(tree, protocol) + 2 * hops_intra * hop(t.hop, tree, protocol) +
                           inter_hops(tree) * inter;
    slot(tree, protocol) = {latency, bandwidth / 2};
  }
}

void NcclTuning::fill_nvls() {
  const NcclTopology& t = topology_;
  if (t.nvls.channels < 2) return;
  const auto generation = static_cast<std::size_t>(generation_);
  const double channels = t.nvls.channels;
  const double inside =
      t.nvls.intra * tables_->nvls_efficiency[generation] * (channels - 1) / channels;
  const double intra_latency = hop(NcclHop::nvlink, nvls, simple);

  if (t.nodes == 1) {
    if (gathers(collective_)) {
      const double local = t.ranks_per_node();
      const double each = std::min(inside * (local - 1) / local, t.nvls.inter);
      slot(nvls, simple) = {intra_latency, channels * each};
    } else {
      slot(nvls, simple) = {intra_latency,
                            channels * std::min(2 * inside, t.nvls.inter) * ring_ratio()};
    }
    return;
  }
  if (collective_ != OpKind::all_reduce) return;
  const double cap = tables_->channel_nvls_tree[generation][node_column()];
  if (cap <= 0) return;
  const double between = t.nvls.inter * (t.nodes <= 2 ? 2 : 1);
  const double each = std::min({2 * inside, between, cap});
  const double inter_latency = hop(NcclHop::net, nvls_tree, simple) + 2 * nic_latency_;
  slot(nvls_tree, simple) = {intra_latency + inter_hops(nvls_tree) * inter_latency,
                             channels * each * ring_ratio()};
}

NcclEstimate NcclTuning::corrected(NcclChoice choice, Bytes bytes) const {
  NcclEstimate estimate = at(choice.algorithm, choice.protocol);
  if (choice.algorithm == tree) {
    const auto& factors = tables_->tree_correction[static_cast<std::size_t>(choice.protocol)];
    const std::uint64_t units = static_cast<std::uint64_t>(bytes) / 64;
    if (units < 1) {
      estimate.bandwidth *= factors[0];
    } else if (const auto i = static_cast<std::size_t>(log2_floor(units)); i < factors.size()) {
      const double at_least = static_cast<double>(std::uint64_t{64} << i);
      const double beyond = (static_cast<double>(bytes) - at_least) / at_least;
      const double next = i + 1 < factors.size() ? factors[i + 1] : 1;
      estimate.bandwidth *= factors[i] + (next - factors[i]) * beyond;
    }
  }
  const bool plateau = choice.algorithm == ring && choice.protocol == simple &&
                       collective_ == OpKind::all_reduce && topology_.nodes > 1 &&
                       bytes / (topology_.ring.channels * topology_.ranks) >= 64;
  if (plateau) estimate.latency *= generation_ == Generation::volta ? 1.9 : 1.4;
  return estimate;
}

NcclChoice NcclTuning::choose(Bytes bytes) const {
  NcclChoice best;
  double best_time = -1;
  for (NcclAlgorithm algorithm : {tree, ring, nvls, nvls_tree}) {
    for (NcclProtocol protocol : kProtocols) {
      if (at(algorithm, protocol).bandwidth <= 0) continue;
      const NcclEstimate e = corrected({algorithm, protocol}, bytes);
      const double time = e.latency + static_cast<double>(bytes) / (1000 * e.bandwidth);
      if (best_time >= 0 && time >= best_time) continue;
      best_time = time;
      best = {algorithm, protocol};
    }
  }
  return best;
}

Bytes NcclTuning::channel_part(NcclChoice choice) const {
  const bool slow_ring = topology_.ring.channels * topology_.ring.intra <= 12;
  Bytes threads = choice.protocol == ll128 ? 640 : 512;
  Bytes per_thread = choice.protocol == simple ? 64 : 8;
  if (choice.protocol == ll && choice.algorithm == ring) per_thread *= topology_.ranks;
  if (choice.protocol == simple && choice.algorithm == ring && slow_ring) threads = 256;
  return threads * per_thread;
}

int NcclTuning::channels(NcclChoice choice, Bytes bytes) const {
  if (choice.algorithm == nvls || choice.algorithm == nvls_tree) return topology_.nvls_channels;
  return static_cast<int>(
      std::clamp<Bytes>(bytes / channel_part(choice), 1, topology_.comm_channels));
}

}  // namespace foregather::sim
