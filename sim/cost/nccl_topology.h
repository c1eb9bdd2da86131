// What NCCL's topology search finds: how many channels, how fast.
#pragma once

#include "sim/cost/hardware.h"
#include "sim/cost/nccl_tables.h"

namespace foregather::sim {

/// Channels of one pattern, each of `intra` GB/s inside a node and `inter` GB/s between nodes.
struct NcclGraph {
  int channels = 0;  ///< 0: the pattern is not available
  double intra = 0;
  double inter = 0;
};

struct NcclTopology {
  int ranks = 1;
  int nodes = 1;
  NcclHop hop = NcclHop::pci;  ///< of a hop inside a node
  NcclGraph ring;
  NcclGraph tree;          ///< the ring's channels, faster inside the nodes where there are two
  double tree_inside = 0;  ///< GB/s that a tree's channel could have inside the nodes
  NcclGraph nvls;
  int comm_channels = 1;  ///< CTAs that a large ring collective launches
  int nvls_channels = 0;  ///< the same for NVLS
  bool ll = true;         ///< the protocol is used by default
  bool ll128 = false;

  int ranks_per_node() const { return (ranks + nodes - 1) / nodes; }
};

/// B/s that the links of a GPU carry to the others of `local` ranks of its node. Where every pair
/// of the node's GPUs has links of its own, those to GPUs that take no part stay idle: two of eight
/// MI300X have one link of seven, two of the four GPUs of a GH200 node six of eighteen. All links
/// elsewhere: with switches, and where some pairs have none (DGX-1, MI250X).
double links_among(const Hardware::Intra& intra, int local);

/// The search in closed form: speeds are tried downwards from NCCL's lists and the one that fills
/// the links best wins; fast rings are split in two. Assumes that adapters, inter.nics_per_gpu for
/// each GPU, and links are all alike. `ranks` and `nodes` are at least 1.
NcclTopology nccl_topology(const Hardware& hardware, int ranks, int nodes);

/// The same channels at the speed that adapters carry. NCCL's lists have 0.96 of the usual line
/// rates; an adapter between two of these is taken for the slower one when NCCL chooses, but moves
/// its own rate.
NcclTopology at_line_rate(const NcclTopology& found, const Hardware& hardware);

}  // namespace foregather::sim
