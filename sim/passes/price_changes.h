// What passes change about prices: the graph has no durations.
#pragma once

#include <vector>

#include "core/ir/graph.h"
#include "sim/cost/cost_table.h"

namespace foregather::sim {

/// Limits of one factor and of the product of all factors with one target.
inline constexpr double kSlowest = 1e-6, kFastest = 1e6;

/// Speeds by which durations are divided, each the product of all passes that name it.
struct PriceChanges {
  double links = 1;    ///< bandwidth of every link: an input of the collectives' model
  double compute = 1;  ///< of all device work that is no collective: an input of the model
  double host = 1;     ///< of launches, allocator calls, events and synchronisations
  struct KindSpeed {
    OpKind kind = OpKind::other;
    double speed = 1;
    friend bool operator==(const KindSpeed&, const KindSpeed&) = default;
  };
  std::vector<KindSpeed> kinds;
  struct CostSpeed {
    CostId cost;
    double speed = 1;
    friend bool operator==(const CostSpeed&, const CostSpeed&) = default;
  };
  std::vector<CostSpeed> costs;  ///< of single rows of the graph
  friend bool operator==(const PriceChanges&, const PriceChanges&) = default;
};

/// Divides the durations of the kinds and rows that the changes name, and the times of the host.
/// What the device's driver does (cudaMalloc, cudaFree) stays. `links` and `compute` are for
/// price() to apply.
void change_prices(const PriceChanges& changes, const Graph& graph, CostTable& table);

}  // namespace foregather::sim
