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

std::pair<Bytes, Bytes> around(Bytes reserved) {
  const auto off = static_cast<Bytes>(static_cast<double>(reserved) * kMemoryTolerance);
  return {reserved - off, reserved + off};
}

void widen(Interval& interval, Ns step) {
  auto& [low, high] = *interval.step_time;
  low = std::min(low, step);
  high = std::max(high, step);
}

}  // namespace

Status fill_intervals(const Schedule& schedule, Summary& summary) {
  if (summary.oom) return {};
  const Ns step = *summary.step_time();
  summary.interval = {std::pair(step, step), around(summary.large().memory.peaks.reserved)};
  for (ClassFigures& figures : summary.classes)
    figures.interval = {std::pair(figures.times->step, figures.times->step),
                        around(figures.memory.peaks.reserved)};
  sim::EngineOptions options = schedule.engine;
  options.record_memory = false;
  sim::Engine engine(schedule.graph, options);
  for (const Spread& spread : {kFast, kSlow}) {
    const auto simulation = engine.simulate(with_spread(schedule, spread));
    if (!simulation) return tl::unexpected(simulation.error());
    if (simulation->oom) continue;
    Ns slowest = 0;
    for (std::size_t c = 0; c < summary.classes.size(); ++c) {
      const Ns time = simulation->classes[c].steady.time();
      widen(summary.classes[c].interval, time);
      slowest = std::max(slowest, time);
    }
    widen(summary.interval, slowest);
  }
  return {};
}

}  // namespace foregather::tasks
