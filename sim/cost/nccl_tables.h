// The constants of NCCL's tuning model, by NCCL version.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sim/cost/hardware.h"

namespace foregather::sim {

enum class NcclAlgorithm : std::uint8_t {
  tree,
  ring,
  collnet_direct,
  collnet_chain,
  nvls,
  nvls_tree,
  pat,
};
inline constexpr std::size_t kNcclAlgorithms = 7;

enum class NcclProtocol : std::uint8_t { ll, ll128, simple };
inline constexpr std::size_t kNcclProtocols = 3;

/// What a hop crosses: the "hardware class" of NCCL's latency table.
enum class NcclHop : std::uint8_t { nvlink, pci, net };
inline constexpr std::size_t kNcclHops = 3;

std::string_view name(NcclAlgorithm);
std::string_view name(NcclProtocol);

using NcclTriple = std::array<double, kNcclProtocols>;
/// GB/s on 1 node, on 2 nodes, on 3 and more.
using NcclByNodes = std::array<double, 3>;
using NcclByGeneration = std::array<NcclByNodes, 4>;  ///< by Generation

/// Latencies in µs, bandwidths in GB/s (1e9 B/s). Source: NVIDIA/nccl src/graph/tuning.cc of the
/// versions named in nccl_tables.cpp, re-stated.
struct NcclTables {
  int version = 0;  ///< first NCCL_VERSION_CODE that has these
  std::array<NcclTriple, kNcclAlgorithms> base_latency{};
  std::array<std::array<NcclTriple, kNcclAlgorithms>, kNcclHops> hop_latency{};
  NcclByGeneration ll_max{};  ///< of a whole LL ring or tree
  NcclByGeneration channel_ring_ll128{};
  NcclByGeneration channel_tree_ll128{};
  NcclByGeneration channel_tree{};
  NcclByGeneration channel_nvls_tree{};
  std::array<double, 4> nvls_efficiency{};
  /// Factor on a tree all-reduce's bandwidth at 64 B << index; above there is none.
  std::array<std::array<double, 23>, kNcclProtocols> tree_correction{};
};

/// The newest tables that are not newer than `version` (an NCCL_VERSION_CODE); the oldest known
/// ones for still older versions.
const NcclTables& nccl_tables(int version);

}  // namespace foregather::sim
