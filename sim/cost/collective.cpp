#include "sim/cost/collective.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

namespace foregather::sim {

namespace {

constexpr double kGiga = 1e9;
constexpr double kMicrosecondNs = 1000;
/// NCCL moves a Simple chunk in slices of a quarter of the 4 MiB channel buffer
/// (NCCL_BUFFSIZE 4 MiB, 8 steps, slices of 2): src/include/device.h.
constexpr double kSlice = 1048576;
/// A Simple tree moves chunks of one step of that buffer (calcCollChunking in src/enqueue.cc).
constexpr double kTreeChunk = 524288;
/// One step of an LL channel: 512 threads (NCCL_LL_MAX_NTHREADS) of 8 lines with 8 bytes each, of
/// which a flag takes as many again on the wire: src/include/device.h.
constexpr double kLlStep = 32768;
constexpr double kLlOnWire = 2;
/// The longest message that libfabric's CXI provider sends at once: rdzv_threshold 2048 and
/// rdzv_get_min 2049 (prov/cxi/src/cxip_info.c). Fabrics without a rendezvous have no such limit.
constexpr double kEager = 4097;
/// Of one channel between two GPUs of a node NCCL's send and receive move up to 32 steps of 512 KiB
/// before they take more channels, and by LL up to 16 KiB (NCCL_P2P_LL_THRESHOLD): addP2pToPlan in
/// src/enqueue.cc.
constexpr double kPeerStep = 524288;
constexpr double kMostOfChannel = 32 * kPeerStep;
constexpr double kLlOfChannel = 16384;
/// No channel gets less than an eighth of a step.
constexpr double kLeastOfChannel = kPeerStep / 8;

/// Device memory traffic of one rank, in multiples of the bytes it sends: all-gather reads what it
/// sends and writes what it receives; a reduction reads its own operand as well.
double traffic_per_byte(OpKind kind) {
  return kind == OpKind::all_reduce || kind == OpKind::reduce_scatter || kind == OpKind::reduce
             ? 3.0
             : 2.0;
}

/// B/ns that a channel of send and receive moves over NVLink: 16 MiB take 1.21 ms on A100, 0.79 to
/// 0.82 on H100 and B200 (published send-receives of 64 to 256 MiB). Assumed of others: older ones
/// as A100, newer ones as H100.
double channel_copy(Generation generation) {
  return generation <= Generation::ampere ? 13.9 : 20.8;
}

/// Channels to each peer of a node: a power of two that leaves one for every rank.
int peer_channels(int all, int ranks) {
  int each = all;
  while (each > 1 && each * ranks > all) each /= 2;
  return each;
}

/// The same of a message to one of them, which takes more, up to `all`, if a channel had too much.
int channels_taken(double bytes, int each, int all) {
  while (each <= all / 2 && bytes > each * kMostOfChannel) each *= 2;
  return each;
}

/// ns, each channel moving `rate`. With more channels a longer message can be faster than a shorter
/// one; it then takes as long as that.
double to_peer(double bytes, int each, int taken, double rate) {
  const double time = bytes / (taken * rate);
  return taken == each ? time : std::max(time, kMostOfChannel / rate);
}

bool is_nvls(NcclChoice choice) {
  return choice.algorithm == NcclAlgorithm::nvls || choice.algorithm == NcclAlgorithm::nvls_tree;
}

bool is_tree(NcclChoice choice) {
  return choice.algorithm == NcclAlgorithm::tree || choice.algorithm == NcclAlgorithm::nvls_tree;
}

}  // namespace

CollectivePricer::CollectivePricer(const Hardware& hardware, double link_scale)
    : hardware_(hardware), link_scale_(link_scale) {}

const CollectivePricer::Communicator& CollectivePricer::communicator(OpKind kind, int ranks,
                                                                     int nodes) {
  for (const Communicator& known : communicators_) {
    if (known.tuning.collective() == kind && known.tuning.topology().ranks == ranks &&
        known.tuning.topology().nodes == nodes) {
      return known;
    }
  }
  const NcclTopology topology = nccl_topology(hardware_, ranks, nodes);
  Communicator made{NcclTuning(topology, hardware_, kind),
                    NcclTuning(at_line_rate(topology, hardware_), hardware_, kind),
                    {}};
  made.ranges = ranges(made);
  return communicators_.emplace_back(std::move(made));
}

std::vector<CollectivePricer::Range> CollectivePricer::ranges(const Communicator& known) const {
  constexpr Bytes kLargest = Bytes{1} << 46;
  const NcclTuning& tuning = known.tuning;
  std::vector<Range> found{{1, tuning.choose(1)}};
  for (Bytes size = 2; size <= kLargest; size *= 2) {
    while (tuning.choose(size) != found.back().choice) {
      Bytes same = std::max(found.back().from, size / 2);
      Bytes other = size;
      while (other - same > 1) {
        const Bytes middle = same + (other - same) / 2;
        (tuning.choose(middle) == found.back().choice ? same : other) = middle;
      }
      found.push_back({other, tuning.choose(other)});
    }
  }
  double least = std::numeric_limits<double>::infinity();
  for (auto range = found.rbegin(); range != found.rend(); ++range) {
    range->most = least;
    least = std::min(least, time(known, range->choice, range->from));
  }
  return found;
}

double CollectivePricer::achievable(const NcclTuning& tuning, NcclChoice choice,
                                    double nccl_bandwidth) const {
  const NcclTopology& t = tuning.topology();
  const double links = t.ranks_per_node() > 1 ? hardware_.intra.efficiency : 1;
  double inside = nccl_bandwidth * (is_nvls(choice) ? hardware_.nccl.nvls_efficiency : links);
  if (t.nodes == 1) return inside;
  // NCCL's figures of NVLSTree are of a channel, and hold where eight share the links.
  constexpr double kAllChannels = 8;
  if (choice.algorithm == NcclAlgorithm::nvls_tree)
    inside *= std::max(1.0, kAllChannels / t.nvls.channels);
  const double nics = adapters(t);
  double cap = nics * tuning.ring_ratio();
  // Two nodes exchange the message once each way; an inner node of a larger tree sends it twice.
  if (is_tree(choice)) {
    cap = t.nodes == 2 ? nics : nics / 2 * hardware_.inter.tree_efficiency;
  }
  return std::min(inside, cap);
}

double CollectivePricer::adapter() const {
  const Hardware::Inter& inter = hardware_.inter;
  // Not where the other GPUs of a node are in groups of their own, as the replicas of HSDP.
  const bool is_single = hardware_.intra.gpus == 1 && inter.single_efficiency > 0;
  return inter.nic_bandwidth / kGiga * (is_single ? inter.single_efficiency : inter.efficiency);
}

double CollectivePricer::adapters(const NcclTopology& topology) const {
  return topology.ranks_per_node() * adapter();
}

double CollectivePricer::streamed(const NcclTuning& carried, double bytes) const {
  const NcclTopology& t = carried.topology();
  const NcclChoice choice{NcclAlgorithm::tree, NcclProtocol::simple};
  // Without NCCL's corrections by size, which stand for the same, and on two nodes without its cap
  // of a channel: large trees reach what the search found (published tables of A100 and H100).
  const double each_way = t.tree.channels * t.tree.intra / 2;
  const double estimate = carried.at(choice.algorithm, choice.protocol).bandwidth;
  const double bandwidth = achievable(carried, choice, t.nodes == 2 ? each_way : estimate);
  const double first = std::min(bytes, t.comm_channels * kTreeChunk);
  const double inside = t.tree.channels * t.tree_inside * hardware_.intra.efficiency;
  const double up_and_down = 2.0 * (t.ranks_per_node() - 1) * first / inside;
  // Each of the two trees has half, and what one sends up another way than the other.
  const double between = carried.inter_hops(choice.algorithm) * first / 2 / adapters(t);
  return std::max(between + up_and_down, first / bandwidth) + (bytes - first) / bandwidth;
}

double CollectivePricer::held(const Communicator& known, NcclChoice choice, Bytes bytes) const {
  const NcclTopology& topology = known.tuning.topology();
  const auto size = static_cast<double>(bytes);
  const double each = static_cast<double>(known.tuning.channel_part(choice));
  const double channels = std::clamp(size / each, 1.0, static_cast<double>(topology.comm_channels));
  const double part =
      choice.algorithm == NcclAlgorithm::ring ? size * known.carried.ring_part() : size;
  const double of_channel = std::min(part / channels, kLlStep);
  const double asked = kLlOnWire * of_channel > kEager ? hardware_.inter.rendezvous : 0;
  // Each rank's own thread serves the channels that leave its node there.
  const double of_rank = std::max(1.0, channels / topology.ranks_per_node()) * of_channel;
  return known.carried.inter_hops(choice.algorithm) *
         (of_rank / (hardware_.inter.ll_bandwidth / kGiga) / link_scale_ + asked);
}

double CollectivePricer::slowdown(int nodes) const {
  const Hardware::Nccl& nccl = hardware_.nccl;
  const bool is_between = nodes > 1 && nccl.slowdown_between_nodes > 0;
  return is_between ? nccl.slowdown_between_nodes : nccl.small_message_slowdown;
}

double CollectivePricer::started(double latency_us, int channels) const {
  const Hardware::Nccl& nccl = hardware_.nccl;
  return std::max(nccl.launch_floor, latency_us * kMicrosecondNs) + channels * nccl.channel_start;
}

double CollectivePricer::time(const Communicator& known, NcclChoice choice, Bytes bytes) const {
  const NcclTopology& t = known.carried.topology();
  const NcclEstimate estimate = known.carried.corrected(choice, bytes);
  const auto size = static_cast<double>(bytes);
  // NCCL's latency of NVLS is what published tables show, that of the others is too short.
  const double longer = choice.algorithm == NcclAlgorithm::nvls ? 1 : slowdown(t.nodes);
  double latency = estimate.latency;
  if (choice.algorithm == NcclAlgorithm::ring)
    latency += known.carried.uncounted_latency(choice.protocol);
  const double start = started(latency * longer, known.tuning.channels(choice, bytes));
  if (t.nodes > 1 && choice == NcclChoice{NcclAlgorithm::tree, NcclProtocol::simple}) {
    return start + streamed(known.carried, size) / link_scale_;
  }
  const double bandwidth = achievable(known.carried, choice, estimate.bandwidth);
  const double exposed =
      is_nvls(choice) ? hardware_.nccl.nvls_fill * std::min(size, t.nvls_channels * kSlice) : 0;
  const bool holds = t.nodes > 1 && choice.protocol == NcclProtocol::ll;
  return start + (size + exposed) / bandwidth / link_scale_ +
         (holds ? held(known, choice, bytes) : 0);
}

std::pair<NcclChoice, double> CollectivePricer::chosen(const Communicator& known,
                                                       Bytes bytes) const {
  auto range = std::find_if(known.ranges.begin() + 1, known.ranges.end(),
                            [&](const Range& later) { return later.from > bytes; }) -
               1;
  std::pair best{range->choice, std::min(time(known, range->choice, bytes), range->most)};
  // To NCCL, links twice as fast are a message of half the size.
  const double shortest = static_cast<double>(bytes) / link_scale_;
  while (range != known.ranges.begin() && static_cast<double>(range->from) > shortest) {
    --range;
    const double t = time(known, range->choice, bytes);
    if (t < best.second) best = {range->choice, t};
  }
  return best;
}

CollectiveWork CollectivePricer::ring_like(OpKind kind, Bytes bytes, int ranks, int nodes) {
  const Communicator& known = communicator(kind, ranks, nodes);
  const NcclTuning& table = known.tuning;
  const auto size = static_cast<double>(bytes);
  CollectiveWork result;
  result.is_nccl_choice = true;
  Work& work = result.work;
  std::tie(result.choice, work.time) = chosen(known, bytes);

  const NcclTopology& t = known.carried.topology();
  const double around = size * table.ring_steps() / static_cast<double>(ranks);
  const double sent = is_nvls(result.choice) ? size * (1 + 1.0 / ranks) : around;
  const double between = !is_tree(result.choice) ? around : nodes == 2 ? size : 2 * size;
  const NcclGraph& graph = result.choice.algorithm == NcclAlgorithm::tree ? t.tree : t.ring;
  const double link = graph.channels * graph.intra * hardware_.intra.efficiency * link_scale_;
  const double nics = adapter() * link_scale_;
  work[Resource::sm] = table.channels(result.choice, bytes) / hardware_.compute.sms;
  work[Resource::hbm] =
      traffic_per_byte(kind) * sent / work.time / (hardware_.memory.bandwidth / kGiga);
  if (t.ranks_per_node() > 1) work[Resource::intra_link] = sent / work.time / link;
  if (nodes > 1) work[Resource::inter_link] = between / t.ranks_per_node() / work.time / nics;
  return result;
}

CollectiveWork CollectivePricer::point_to_point(OpKind kind, Bytes bytes, int ranks, int nodes) {
  const Communicator& known = communicator(OpKind::all_gather, ranks, nodes);
  const NcclTuning& table = known.tuning;
  const NcclTopology& t = known.carried.topology();
  const NcclTables& tables = nccl_tables(static_cast<int>(hardware_.nccl.version));
  const auto size = static_cast<double>(bytes);
  constexpr auto ring = static_cast<std::size_t>(NcclAlgorithm::ring);
  const double to_each = kind == OpKind::all_to_all ? size / ranks : size;
  const auto all = static_cast<int>(std::bit_ceil(static_cast<unsigned>(t.comm_channels)));
  const int each = peer_channels(all, ranks);
  const bool is_ll = nodes == 1 && to_each <= each * kLlOfChannel;
  const auto protocol = static_cast<std::size_t>(is_ll ? NcclProtocol::ll : NcclProtocol::simple);
  const auto hop = [&](NcclHop h) {
    return tables.hop_latency[static_cast<std::size_t>(h)][ring][protocol];
  };
  // A message to one GPU has the links to it, those to all others of the node share theirs.
  const double share =
      kind == OpKind::all_to_all
          ? 1
          : links_among(hardware_.intra, 2) / links_among(hardware_.intra, t.ranks_per_node());
  const double link =
      share * t.ring.channels * t.ring.intra * hardware_.intra.efficiency * link_scale_;
  const double nic = adapter() * link_scale_;

  double inside = nodes == 1 ? size : 0;
  double between = nodes == 1 ? 0 : size;
  if (kind == OpKind::all_to_all) {
    inside = size * (t.ranks_per_node() - 1) / ranks;
    between = size * (ranks - t.ranks_per_node()) / ranks;
  }
  const double latency = tables.base_latency[ring][protocol] + hop(t.hop) +
                         (nodes > 1 ? hop(NcclHop::net) + hardware_.inter.latency / 1000 : 0);
  const int taken = channels_taken(to_each, each, all);
  int channels = table.channels({NcclAlgorithm::ring, NcclProtocol::simple}, bytes);
  if (nodes == 1) {
    const int peers = kind == OpKind::all_to_all ? ranks - 1 : 1;
    const double parts = std::clamp(std::ceil(to_each / kLeastOfChannel), 1.0, double(taken));
    channels = std::min(all, static_cast<int>(parts) * peers);
  }
  CollectiveWork result;
  Work& work = result.work;
  // Over PCIe all of it passes the GPU's one port.
  const double through_port = hardware_.has_nvlink() ? inside : inside + between;
  double transfer = std::max(through_port / link, between / nic);
  if (nodes == 1 && hardware_.has_nvlink()) {
    const double rate = channel_copy(hardware_.generation()) * link_scale_;
    transfer = std::max(transfer, to_peer(to_each, each, taken, rate));
  }
  work.time = started(latency * slowdown(nodes), channels) + transfer;
  work[Resource::sm] = channels / hardware_.compute.sms;
  work[Resource::hbm] = 2 * size / work.time / (hardware_.memory.bandwidth / kGiga);
  work[Resource::intra_link] = through_port / work.time / link;
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
