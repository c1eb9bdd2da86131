// What predicting the reference step costs, in its parts and as a whole.
#include <benchmark/benchmark.h>

#include "tests/bench/reference_step.h"

namespace {

using namespace foregather;
using namespace foregather::bench;

void counters(benchmark::State& state, const Graph& graph, std::uint32_t steps) {
  const StepCounts counts = count(graph);
  state.counters["launches"] = static_cast<double>(counts.launches);
  state.counters["allocator_calls"] = static_cast<double>(counts.allocator_calls);
  state.counters["steps"] = steps;
  state.counters["ns_per_launch"] = benchmark::Counter(
      static_cast<double>(counts.launches) * steps * 1e-9,
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void build(benchmark::State& state, const char* strategy) {
  const ReferenceStep step = reference_step({std::string("parallel.strategy=") + strategy});
  for (auto _ : state) benchmark::DoNotOptimize(lowered(step));
  counters(state, lowered(step), 1);
}
BENCHMARK_CAPTURE(build, fsdp2, "fsdp2")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(build, fsdp1, "fsdp1")->Unit(benchmark::kMillisecond);

void simulate(benchmark::State& state, bool contention, bool memory) {
  ReferenceStep step = reference_step();
  step.engine.contention = contention;
  step.engine.memory = memory;
  const Graph graph = lowered(step);
  const std::vector<sim::CostTable> prices{sim::price(graph, step.hardware, step.pricing)};
  std::uint32_t steps = 0;
  for (auto _ : state) {
    const auto simulation = sim::simulate(graph, prices, step.engine);
    if (!simulation || simulation->oom) return state.SkipWithError("did not run");
    steps = simulation->steps;
  }
  counters(state, graph, steps);
}
BENCHMARK_CAPTURE(simulate, allocator_and_contention, true, true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(simulate, allocator, false, true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(simulate, contention, true, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(simulate, neither, false, false)->Unit(benchmark::kMillisecond);

void cold(benchmark::State& state) {
  const ReferenceStep step = reference_step();
  std::uint32_t steps = 0;
  for (auto _ : state) {
    const Graph graph = lowered(step);
    const std::vector<sim::CostTable> prices{sim::price(graph, step.hardware, step.pricing)};
    const auto simulation = sim::simulate(graph, prices, step.engine);
    if (!simulation || simulation->oom) return state.SkipWithError("did not run");
    steps = simulation->steps;
  }
  counters(state, lowered(step), steps);
}
BENCHMARK(cold)->Unit(benchmark::kMillisecond);

}  // namespace
