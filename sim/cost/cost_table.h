// Prices of a graph's cost rows on one piece of hardware. The engine reads this and nothing else of
// the cost model.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/units.h"
#include "core/ir/graph.h"

namespace foregather::sim {

/// What overlapped ops share.
enum class Resource : std::uint8_t { sm, hbm, intra_link, inter_link };
inline constexpr std::size_t kResources = 4;

/// 1.0 in demands: the whole resource.
inline constexpr std::uint16_t kWhole = 1U << 15;

struct Price {
  Ns duration = 0;  ///< running alone
  /// Host time of launching it: framework dispatch plus launches.
  Ns host = 0;
  Ns launch_lead = 0, lead = 0;  ///< as in Cost
  Ns lateness = 0;               ///< of a collective: between its last arrival and its transfer
  /// Of a collective: its rank alone needs that long, whatever its peers do; else all ranks end
  /// with the slowest.
  bool is_own = false;
  /// Share of each resource that it uses when it runs alone, in 1/kWhole.
  std::array<std::uint16_t, kResources> demand{};
  std::uint16_t source = 0;  ///< row of CostTable::sources: the model or table it came from
};

/// Host time of the actions that are not launches.
struct HostPrices {
  Ns alloc = 0;  ///< served from the cache
  Ns free = 0;
  Ns record = 0;         ///< event record
  Ns wait = 0;           ///< stream wait event
  Ns synchronize = 0;    ///< resume after a blocking wait
  Ns device_malloc = 0;  ///< cudaMalloc, each
  Ns device_malloc_per_gib = 0;
  Ns device_free = 0;  ///< cudaFree, each
  Ns device_map = 0;   ///< cuMemMap + cuMemSetAccess of one granule
  double delays = 1;   ///< factor on the host's own delays
  /// Launches that one stream holds before the host must wait for the oldest to end; 0: no limit.
  /// CUDA does not document it; 1024 is what profiles of launch-ahead programs show.
  std::uint32_t launch_queue = 1024;
};

/// Indexed by CostId. One a hardware row of the job.
struct CostTable {
  std::vector<Price> prices;
  HostPrices host;
  std::vector<std::string> sources;
  double clock = 1;  ///< that compute is priced at, as a fraction of the hardware's boost_clock
};

}  // namespace foregather::sim
