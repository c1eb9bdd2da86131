#include "sim/cost/collective.h"

#include <algorithm>
#include <array>

namespace foregather::sim {

namespace {

constexpr double kGiga = 1e9;
constexpr double kMicrosecondNs = 1000;
/// NCCL moves a Simple chunk in slices of a quarter of the 4 MiB channel buffer
/// (NCCL_BUFFSIZE 4 MiB, 8 steps, slices of 2): src/include/device.h.
constexpr double kSlice = 1048576;

/// Device memory traffic of one rank, in multiples of the bytes it sends: all-gather reads what it
/// sends and writes what it receives; a reduction reads its own operand as well.
double traffic_per_byte(OpKind kind) {
  return kind == OpKind::all_reduce || kind == OpKind::reduce_scatter || kind == OpKind::reduce
             ? 3.0
             : 2.0;
}

}  // namespace

CollectivePricer::CollectivePricer(const Hardware& hardware, double link_scale)
    : hardware_(hardware), link_scale_(link_scale) {}

const NcclTuning& CollectivePricer::tuning(OpKind kind, int ranks, int nodes) {
  for (const NcclTuning& known : tunings_) {
    if (known.collective() == kind && known.topology().ranks == ranks &&
        known.topology().nodes == nodes) {
      return known;
    }
  }
  return tunings_.emplace_back(nccl_topology(hardware_, ranks, nodes), hardware_, kind);
}

double CollectivePricer::achievable(const NcclTuning& tuning, NcclChoice choice,
                                    double nccl_bandwidth) const {
  const NcclTopology& t = tuning.topology();
  const double inside = nccl_bandwidth * hardware_.intra.efficiency;
  if (t.nodes == 1) return inside;
  const double nics =
      t.ranks_per_node() * hardware_.inter.nic_bandwidth / kGiga * hardware_.inter.efficiency;
  double cap = nics * tuning.ring_ratio();
  // Two nodes exchange the message once each way; an inner node of a larger tree sends it twice.
  if (choice.algorithm == NcclAlgorithm::tree || choice.algorithm == NcclAlgorithm::nvls_tree) {
    cap = t.nodes == 2 ? nics : nics / 2;
  }
  return std::min(inside, cap);
}

double CollectivePricer::started(double latency_us) const {
  const Hardware::Nccl& nccl = hardware_.nccl;
  return nccl.launch_exposed * nccl.launch_floor +
         latency_us * kMicrosecondNs * nccl.small_message_slowdown;
}

double CollectivePricer::time(const NcclTuning& tuning, NcclChoice choice, Bytes bytes) const {
  const NcclTopology& t = tuning.topology();
  const NcclEstimate estimate = tuning.corrected(choice, bytes);
  const auto size = static_cast<double>(bytes);
  const double bandwidth = achievable(tuning, choice, estimate.bandwidth);
  double transfer = size / bandwidth;
  if (choice.algorithm == NcclAlgorithm::ring && choice.protocol == NcclProtocol::simple) {
    const double bus = bandwidth / tuning.ring_ratio();
    const double exposed = std::min(size / t.ranks, t.comm_channels * kSlice);
    transfer += hardware_.nccl.pipeline_fill * exposed / bus;
  }
  return started(estimate.latency) + transfer / link_scale_;
}

CollectiveWork CollectivePricer::ring_like(OpKind kind, Bytes bytes, int ranks, int nodes) {
  const NcclTuning& table = tuning(kind, ranks, nodes);
  CollectiveWork best;
  best.is_nccl_choice = true;
  best.work.time = -1;
  for (NcclAlgorithm algorithm :
       {NcclAlgorithm::tree, NcclAlgorithm::ring, NcclAlgorithm::nvls, NcclAlgorithm::nvls_tree}) {
    for (NcclProtocol protocol : {NcclProtocol::ll, NcclProtocol::ll128, NcclProtocol::simple}) {
      if (table.at(algorithm, protocol).bandwidth <= 0) continue;
      const double t = time(table, {algorithm, protocol}, bytes);
      if (best.work.time >= 0 && t >= best.work.time) continue;
      best.work.time = t;
      best.choice = {algorithm, protocol};
    }
  }
  Work& work = best.work;
  work.time = std::max(work.time, hardware_.nccl.launch_floor);

  const NcclTopology& t = table.topology();
  const double steps_share = table.ring_steps() / static_cast<double>(ranks);
  const double sent = static_cast<double>(bytes) * steps_share;
  const double link = t.ring.channels * t.ring.intra * hardware_.intra.efficiency * link_scale_;
  const double nics =
      hardware_.inter.nic_bandwidth / kGiga * hardware_.inter.efficiency * link_scale_;
  work[Resource::sm] = table.channels(best.choice, bytes) / hardware_.compute.sms;
  work[Resource::hbm] =
      traffic_per_byte(kind) * sent / work.time / (hardware_.memory.bandwidth / kGiga);
  if (t.ranks_per_node() > 1) work[Resource::intra_link] = sent / work.time / link;
  if (nodes > 1) work[Resource::inter_link] = sent / t.ranks_per_node() / work.time / nics;
  return best;
}

CollectiveWork CollectivePricer::point_to_point(OpKind kind, Bytes bytes, int ranks, int nodes) {
  const NcclTopology& t = tuning(OpKind::all_gather, ranks, nodes).topology();
  const NcclTables& tables = nccl_tables(static_cast<int>(hardware_.nccl.version));
  constexpr auto ring = static_cast<std::size_t>(NcclAlgorithm::ring);
  constexpr auto simple = static_cast<std::size_t>(NcclProtocol::simple);
  const auto hop = [&](NcclHop h) {
    return tables.hop_latency[static_cast<std::size_t>(h)][ring][simple];
  };
  const double link = t.ring.channels * t.ring.intra * hardware_.intra.efficiency * link_scale_;
  const double nic =
      hardware_.inter.nic_bandwidth / kGiga * hardware_.inter.efficiency * link_scale_;
  const auto size = static_cast<double>(bytes);

  double inside = nodes == 1 ? size : 0;
  double between = nodes == 1 ? 0 : size;
  if (kind == OpKind::all_to_all) {
    inside = size * (t.ranks_per_node() - 1) / ranks;
    between = size * (ranks - t.ranks_per_node()) / ranks;
  }
  const double latency = tables.base_latency[ring][simple] + hop(t.hop) +
                         (nodes > 1 ? hop(NcclHop::net) + hardware_.inter.latency / 1000 : 0);
  CollectiveWork result;
  Work& work = result.work;
  work.time = std::max(hardware_.nccl.launch_floor,
                       started(latency) + std::max(inside / link, between / nic));
  work[Resource::sm] = t.comm_channels / hardware_.compute.sms;
  work[Resource::hbm] = 2 * size / work.time / (hardware_.memory.bandwidth / kGiga);
  work[Resource::intra_link] = inside / work.time / link;
  work[Resource::inter_link] = between / work.time / nic;
  return result;
}

CollectiveWork CollectivePricer::local_copy(Bytes bytes) const {
  const double peak = hardware_.memory.bandwidth / kGiga;
  const double traffic = 2.0 * static_cast<double>(bytes);
  CollectiveWork result;
  result.work.time = traffic / (peak * hardware_.efficiency.copy) + hardware_.kernel.floor;
  result.work[Resource::hbm] = traffic / peak / result.work.time;
  return result;
}

CollectiveWork CollectivePricer::price(OpKind kind, Bytes bytes, std::uint32_t ranks,
                                       std::uint32_t nodes) {
  constexpr Bytes kBarrierBytes = 4;
  if (ranks <= 1) return local_copy(bytes);
  const int n = static_cast<int>(ranks);
  const int over = static_cast<int>(std::clamp<std::uint32_t>(nodes, 1, ranks));
  const Bytes size = std::max<Bytes>(bytes, 1);
  switch (kind) {
    case OpKind::all_to_all:
    case OpKind::send_recv: return point_to_point(kind, size, n, over);
    case OpKind::barrier: return ring_like(OpKind::all_reduce, kBarrierBytes, n, over);
    default: return ring_like(kind, size, n, over);
  }
}

}  // namespace foregather::sim
