#include "tasks/interval.h"

#include <algorithm>

namespace foregather::tasks {
namespace {

/// Factors on times.
struct Factors {
  bool is_low = false;
  double compute = 1, intra = 1, inter = 1, host = 1;
};

std::int64_t scaled(std::int64_t value, double factor) {
  return static_cast<std::int64_t>(static_cast<double>(value) * factor + 0.5);
}

double factor_of(const Cost& cost, const Graph& graph, const Factors& factors,
                 const std::vector<sim::Residual>& residuals) {
  if (!is_collective(cost.kind)) {
    // Of a calibrated machine, what its own shapes showed.
    for (const sim::Residual& residual : residuals)
      if (residual.kind == cost.kind) return factors.is_low ? residual.low : residual.high;
    return factors.compute;
  }
  return cost.group && graph.at(cost.group).nodes > 1 ? factors.inter : factors.intra;
}

// Whether delays are the model's. Where no op has a part of the host's (Cost::kernels), they were
// recorded, or are the schedule's own.
bool models_delays(const Graph& graph) {
  return std::ranges::any_of(graph.costs, [](const Cost& cost) { return cost.kernels > 0; });
}

std::vector<sim::CostTable> scaled_by(const Factors& factors, const Schedule& schedule) {
  std::vector<sim::CostTable> tables = schedule.prices;
  const double delays = models_delays(schedule.graph) ? factors.host : 1;
  for (sim::CostTable& table : tables) {
    for (std::size_t row = 0; row < table.prices.size(); ++row) {
      const Cost& cost = schedule.graph.costs[row];
      sim::Price& price = table.prices[row];
      if (!cost.is_fixed)
        price.duration = scaled(
            price.duration, factor_of(cost, schedule.graph, factors, schedule.hardware.residuals));
      price.host = scaled(price.host, factors.host);
    }
    for (Ns sim::HostPrices::*time :
         {&sim::HostPrices::alloc, &sim::HostPrices::free, &sim::HostPrices::record,
          &sim::HostPrices::wait, &sim::HostPrices::synchronize})
      table.host.*time = scaled(table.host.*time, factors.host);
    table.host.delays *= delays;
  }
  return tables;
}

}  // namespace

Result<std::vector<std::pair<Ns, Ns>>> step_ranges(const Schedule& schedule,
                                                   const std::vector<Ns>& step) {
  std::vector<std::pair<Ns, Ns>> ranges;
  for (const Ns time : step) ranges.emplace_back(time, time);
  sim::EngineOptions options = schedule.engine;
  options.record_memory = false;
  sim::Engine engine(schedule.graph, options);
  const sim::Hardware::Interval& own = schedule.hardware.interval;
  for (const Factors& factors :
       {Factors{true, own.compute_low, own.intra_low, own.inter_low, own.host_low},
        Factors{false, own.compute_high, own.intra_high, own.inter_high, own.host_high}}) {
    auto simulation = engine.simulate(scaled_by(factors, schedule));
    if (!simulation) return tl::unexpected(simulation.error());
    if (simulation->oom) continue;
    for (std::size_t c = 0; c < ranges.size(); ++c) {
      const sim::StepResult& steady = simulation->classes[c].steady;
      const bool is_widened = !factors.is_low && steady.peaks.retries > 0;
      const Ns time = is_widened ? scaled(steady.time(), own.retry_high) : steady.time();
      ranges[c].first = std::min(ranges[c].first, time);
      ranges[c].second = std::max(ranges[c].second, time);
    }
    engine.recycle(std::move(*simulation));
  }
  return ranges;
}

std::pair<Bytes, Bytes> peak_range(Bytes peak, const sim::Hardware& hardware) {
  return {scaled(peak, hardware.interval.peak_low), scaled(peak, hardware.interval.peak_high)};
}

bool is_close_call(Bytes reserved, Bytes outside, Bytes capacity, const sim::Hardware& hardware) {
  const auto [low, high] = peak_range(reserved, hardware);
  return low <= capacity - outside && capacity - outside < high;
}

Status fill_intervals(const Schedule& schedule, Summary& summary) {
  if (summary.oom) return {};
  std::vector<Ns> steps;
  for (const ClassFigures& figures : summary.classes) steps.push_back(figures.times->step);
  const auto ranges = step_ranges(schedule, steps);
  if (!ranges) return tl::unexpected(ranges.error());
  const auto interval = [&](const std::pair<Ns, Ns>& step, const ClassFigures& figures) {
    return Interval{step, peak_range(figures.memory.peaks.reserved, schedule.hardware),
                    is_close_call(figures.reserved(), summary.outside_allocator, summary.capacity,
                                  schedule.hardware),
                    schedule.hardware.interval.is_validated};
  };
  for (std::size_t c = 0; c < ranges->size(); ++c)
    summary.classes[c].interval = interval((*ranges)[c], summary.classes[c]);
  std::pair<Ns, Ns> slowest = ranges->front();
  for (const auto& [low, high] : *ranges) {
    slowest.first = std::max(slowest.first, low);
    slowest.second = std::max(slowest.second, high);
  }
  summary.interval = interval(slowest, summary.large());
  return {};
}

}  // namespace foregather::tasks
