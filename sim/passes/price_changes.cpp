#include "sim/passes/price_changes.h"

#include <algorithm>

#include "sim/cost/rounding.h"

namespace foregather::sim {
namespace {

Ns divided(Ns time, double speed) { return round_ns(static_cast<double>(time) / speed); }

// The same bytes in another time: the share of bandwidth changes, the SMs stay.
void speed_up(Price& price, double speed) {
  price.duration = divided(price.duration, speed);
  for (const Resource resource : {Resource::hbm, Resource::intra_link, Resource::inter_link}) {
    std::uint16_t& share = price.demand[static_cast<std::size_t>(resource)];
    share =
        static_cast<std::uint16_t>(std::min<double>(kWhole, static_cast<double>(share) * speed));
  }
}

void speed_up_host(CostTable& table, double speed) {
  for (Price& price : table.prices) price.host = divided(price.host, speed);
  for (Ns HostPrices::*time : {&HostPrices::alloc, &HostPrices::free, &HostPrices::record,
                               &HostPrices::wait, &HostPrices::synchronize})
    table.host.*time = divided(table.host.*time, speed);
}

}  // namespace

void change_prices(const PriceChanges& changes, const Graph& graph, CostTable& table) {
  for (const PriceChanges::KindSpeed& scaled : changes.kinds)
    for (std::size_t row = 0; row < graph.costs.size(); ++row)
      if (graph.costs[row].kind == scaled.kind) speed_up(table.prices[row], scaled.speed);
  for (const PriceChanges::CostSpeed& scaled : changes.costs)
    speed_up(table.prices[scaled.cost.row()], scaled.speed);
  if (changes.host != 1) speed_up_host(table, changes.host);
}

}  // namespace foregather::sim
