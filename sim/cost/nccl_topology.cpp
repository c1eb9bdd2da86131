#include "sim/cost/nccl_topology.h"

#include <algorithm>
#include <array>
#include <span>

namespace foregather::sim {

namespace {

constexpr double kBytesPerGB = 1e9;

// NCCL's speedArray* (src/graph/search.cc), GB/s.
constexpr std::array kIntra70{40.0, 30.0, 20.0, 18.0, 15.0, 12.0, 10.0,
                              9.0,  7.0,  6.0,  5.0,  4.0,  3.0};
constexpr std::array kIntra90{60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 15.0, 12.0, 11.0, 6.0, 3.0};
constexpr std::array kIntra100{90.0, 80.0, 70.0, 60.0, 50.0, 45.0,
                               40.0, 30.0, 24.0, 20.0, 19.0, 18.0};
constexpr std::array kInter70{48.0, 30.0, 28.0, 24.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0,
                              7.0,  6.0,  5.0,  4.0,  3.0,  2.4,  1.2,  0.24, 0.12};
constexpr std::array kInter90{48.0, 45.0, 42.0, 40.0, 30.0, 24.0, 22.0, 20.0, 17.5,
                              15.0, 12.0, 6.0,  3.0,  2.4,  1.2,  0.24, 0.12};
constexpr std::array kInter100{96.0, 86.0, 80.0, 48.0, 45.1, 42.0, 40.0, 30.0, 24.0, 22.0,
                               20.0, 17.5, 15.0, 12.0, 6.0,  3.0,  2.4,  1.2,  0.24, 0.12};

std::span<const double> intra_speeds(Generation generation) {
  switch (generation) {
    case Generation::hopper: return kIntra90;
    case Generation::blackwell: return kIntra100;
    default: return kIntra70;
  }
}

std::span<const double> inter_speeds(Generation generation) {
  switch (generation) {
    case Generation::hopper: return kInter90;
    case Generation::blackwell: return kInter100;
    default: return kInter70;
  }
}

/// Channels of speed s that fit `links` GB/s, at most `most`; the fullest fit, then the fastest.
NcclGraph fill(std::span<const double> speeds, double links, double each, int most) {
  NcclGraph best;
  for (double speed : speeds) {
    if (speed > each) continue;
    const int fitting = std::min(most, static_cast<int>(links / speed));
    if (fitting * speed > best.channels * best.intra) best = {fitting, speed, speed};
  }
  if (best.channels == 0) {
    const double speed = std::min(links, each);
    best = {1, speed, speed};
  }
  return best;
}

/// Fast rings use two channels of half the speed each.
void split(NcclGraph& ring, double compute_capability) {
  const bool spared = compute_capability > 80 && ring.intra < 50 && ring.channels > 4;
  if (ring.intra < 25 || spared) return;
  ring = {ring.channels * 2, ring.intra / 2, ring.inter / 2};
}

/// The second pass of the search (ncclTopoCompute in search.cc): between two nodes every rank of a
/// tree passes the message up and down, so its channels are made up to twice as fast inside the
/// nodes as between them, as far as the links go.
NcclGraph raised(NcclGraph tree, std::span<const double> speeds, double links) {
  for (auto speed = speeds.rbegin(); speed != speeds.rend(); ++speed) {
    if (*speed <= tree.intra) continue;
    if (tree.intra >= 2 * tree.inter || tree.channels * *speed > links) break;
    tree.intra = *speed;
  }
  return tree;
}

NcclGraph nvls_graph(const Hardware& hardware, double links, double nic, int local, int nodes) {
  // More GPUs of one NVLink domain share these channels: all-reduces of 64 and 72 GPUs reach the
  // bandwidth of so many (published tables of GB200 and GB300). Between domains none is seen.
  constexpr int kMostHeads = 8;
  const int heads = nodes == 1 ? std::min(local, kMostHeads) : local;
  const Generation generation = hardware.generation();
  if (hardware.intra.kind != IntraLink::nvswitch || generation < Generation::hopper || heads < 2) {
    return {};
  }
  // What Google's networks need set says NCCL_NVLS_ENABLE=0 (GPUDirect-TCPX and TCPXO).
  if (nodes > 1 && hardware.inter.kind == InterLink::tcp) return {};
  // A GPU is the head of a channel; a link carries one channel more than there are heads.
  // That restates what NCCL reports: 4×60 and 8×40 on H100, 8×80 on B200.
  for (double speed : intra_speeds(generation)) {
    if ((heads + 1) * speed > links) continue;
    const double inter = nodes == 1 ? intra_speeds(generation).front()
                                    : fill(inter_speeds(generation), nic, nic, 1).inter;
    return {heads, speed, inter};
  }
  return {};
}

bool joins_each_pair(const Hardware::Intra& intra) {
  return intra.kind == IntraLink::nvlink && intra.links >= intra.gpus - 1;
}

/// GB/s of the rings of a node. Where each pair has links, rings over several nodes pass its GPUs
/// as chains, in a hop fewer than around them, so that there can be more.
double links_of_rings(const Hardware::Intra& intra, int local, int nodes) {
  const double links = links_among(intra, local) / kBytesPerGB;
  const bool is_chain = nodes > 1 && local > 1 && joins_each_pair(intra);
  return is_chain ? links * local / (local - 1) : links;
}

}  // namespace

double links_among(const Hardware::Intra& intra, int local) {
  const double all = intra.links * intra.link_bandwidth;
  const double others = intra.gpus - 1;
  if (!joins_each_pair(intra) || local < 2 || local > others) return all;
  return all * (local - 1) / others;
}

NcclTopology nccl_topology(const Hardware& hardware, int ranks, int nodes) {
  constexpr int kMaxChannels = 64;
  const Generation generation = hardware.generation();
  const double nic = hardware.inter.nic_bandwidth / kBytesPerGB;

  NcclTopology t;
  t.ranks = ranks;
  t.nodes = nodes;
  t.hop = hardware.has_nvlink() ? NcclHop::nvlink : NcclHop::pci;
  const int local = t.ranks_per_node();
  const double links = links_of_rings(hardware.intra, local, nodes);
  if (nodes == 1) {
    t.ring = fill(intra_speeds(generation), links, links, kMaxChannels / 2);
  } else {
    // A channel per NIC. Its ring also passes through every GPU of the node, unless there is one.
    const double through = local > 1 ? links : nic;
    const int nics = std::max(1, static_cast<int>(local * hardware.inter.nics_per_gpu));
    t.ring = fill(inter_speeds(generation), through, local * nic / nics, nics);
  }
  split(t.ring, hardware.compute.compute_capability);
  t.tree = t.ring;
  const NcclGraph faster = raised(t.tree, inter_speeds(generation), links);
  if (nodes == 2 && local > 1) t.tree = faster;
  t.tree_inside = faster.intra;
  t.nvls = nvls_graph(hardware, links, nic, local, nodes);

  t.comm_channels = 2 * t.ring.channels;
  if (nodes > 1 && generation >= Generation::hopper && t.ring.intra > 45 && t.ring.channels < 16) {
    t.comm_channels *= 2;
  }
  t.comm_channels = std::min(t.comm_channels, kMaxChannels);
  if (t.nvls.channels > 0) {
    const bool blackwell = generation == Generation::blackwell;
    t.nvls_channels = !blackwell ? 16 : nodes == 1 ? 24 : 32;
  }
  t.ll = nodes == 1 || hardware.inter.simple_only == 0;
  t.ll128 = t.ll && (local == 1 || t.hop == NcclHop::nvlink) &&
            (nodes == 1 || hardware.nccl.ll128_between_nodes > 0);
  return t;
}

NcclTopology at_line_rate(const NcclTopology& found, const Hardware& hardware) {
  NcclTopology t = found;
  if (t.nodes == 1) return t;
  constexpr double kListed = 0.96;
  const int local = t.ranks_per_node();
  const double links = links_of_rings(hardware.intra, local, t.nodes);
  const double nic = hardware.inter.nic_bandwidth / kBytesPerGB;
  const double node = local > 1 ? std::min(local * nic, links) : nic;
  const double more = kListed * node / (t.ring.channels * t.ring.inter);
  const bool is_raised = t.tree.intra > t.ring.intra;
  if (more > 1) {
    t.ring = {t.ring.channels, t.ring.intra * more, t.ring.inter * more};
    t.tree = {t.tree.channels, t.tree.intra * (is_raised ? 1 : more), t.tree.inter * more};
    t.tree_inside = std::max(t.tree_inside, t.tree.intra);
  }
  if (t.nvls.channels > 0) t.nvls.inter = std::max(t.nvls.inter, kListed * nic);
  return t;
}

}  // namespace foregather::sim
