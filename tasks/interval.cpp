#include "tasks/interval.h"

#include <algorithm>

namespace foregather::tasks {
namespace {

/// Factors on times.
struct Spread {
  double compute = 1, collectives = 1, host = 1;
};

// Steps of eleven published runs over the sum of their device work; the median error against
// published collectives below 64 MiB; "within a factor of about two".
constexpr Spread kFast{0.91, 0.84, 0.5};
constexpr Spread kSlow{1.19, 1.19, 2.0};

constexpr double kMemoryTolerance = 0.1;

Ns scaled(Ns time, double factor) {
  return static_cast<Ns>(static_cast<double>(time) * factor + 0.5);
}

std::vector<sim::CostTable> with_spread(const Schedule& schedule, const Spread& spread) {
  std::vector<sim::CostTable> tables = schedule.prices;
  for (sim::CostTable& table : tables) {
    for (std::size_t row = 0; row < table.prices.size(); ++row) {
      const bool is_compute = !is_collective(schedule.graph.costs[row].kind);
      sim::Price& price = table.prices[row];
      price.duration = scaled(price.duration, is_compute ? spread.compute : spread.collectives);
      price.host = scaled(price.host, spread.host);
    }
    for (Ns sim::HostPrices::*time :
         {&sim::HostPrices::alloc, &sim::HostPrices::free, &sim::HostPrices::record,
          &sim::HostPrices::wait, &sim::HostPrices::synchronize})
      table.host.*time = scaled(table.host.*time, spread.host);
  }
  return tables;
}

}  // namespace

Result<Interval> prediction_interval(const Schedule& schedule, const Summary& summary) {
  Interval interval;
  if (summary.oom) return interval;
  const Ns step = *summary.step_time();
  interval.step_time = {step, step};
  sim::EngineOptions options = schedule.engine;
  options.record_memory = false;
  sim::Engine engine(schedule.graph, options);
  for (const Spread& spread : {kFast, kSlow}) {
    const auto simulation = engine.simulate(with_spread(schedule, spread));
    if (!simulation) return tl::unexpected(simulation.error());
    if (simulation->oom) continue;
    Ns slowest = 0;
    for (const sim::ClassResult& result : simulation->classes)
      slowest = std::max(slowest, result.steady.time());
    auto& [low, high] = *interval.step_time;
    low = std::min(low, slowest);
    high = std::max(high, slowest);
  }
  const Peaks& peaks = summary.large().memory.peaks;
  const auto off = static_cast<Bytes>(static_cast<double>(peaks.reserved) * kMemoryTolerance);
  interval.reserved = {peaks.reserved - off, peaks.reserved + off};
  return interval;
}

}  // namespace foregather::tasks
