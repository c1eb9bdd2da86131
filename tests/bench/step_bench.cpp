// What predicting the reference step costs, in its parts and as a whole.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

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
// The allocator's part is planned on another processor: what counts is how long all takes.
BENCHMARK_CAPTURE(simulate, allocator_and_contention, true, true)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(simulate, allocator, false, true)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(simulate, contention, true, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(simulate, neither, false, false)->Unit(benchmark::kMillisecond);

// Only the prices change between two simulations of one graph.
void resimulate(benchmark::State& state, bool contention) {
  ReferenceStep step = reference_step();
  step.engine.contention = contention;
  const Graph graph = lowered(step);
  sim::Engine engine(graph, step.engine);
  std::vector<std::vector<sim::CostTable>> prices;
  for (const double links : {1.0, 2.0}) {
    step.pricing.link_bandwidth_scale = links;
    prices.push_back({sim::price(graph, step.hardware, step.pricing)});
  }
  std::uint32_t steps = 0;
  std::size_t turn = 0;
  for (auto _ : state) {
    auto simulation = engine.simulate(prices[turn ^= 1]);
    if (!simulation || simulation->oom) return state.SkipWithError("did not run");
    steps = simulation->steps;
    engine.recycle(std::move(*simulation));
  }
  counters(state, graph, steps);
}
BENCHMARK_CAPTURE(resimulate, contention, true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(resimulate, no_contention, false)->Unit(benchmark::kMillisecond);

void cold(benchmark::State& state) {
  const ReferenceStep step = reference_step();
  std::uint32_t steps = 0;
  for (auto _ : state) {
    const Graph graph = lowered(step);
    sim::Engine engine(graph, step.engine);
    const std::vector<sim::CostTable> prices{sim::price(graph, step.hardware, step.pricing)};
    const auto simulation = engine.simulate(prices);
    if (!simulation || simulation->oom) return state.SkipWithError("did not run");
    steps = simulation->steps;
  }
  counters(state, lowered(step), steps);
}
BENCHMARK(cold)->Unit(benchmark::kMillisecond)->UseRealTime();

// Eight ranks that differ: each is a class of its own with about 20,000 ops a step.
void eight_classes(benchmark::State& state, bool contention, bool memory) {
  const ReferenceStep step = reference_step(
      {"train.grad_accum=3", "train.activation_checkpointing=none", "parallel.world_size=8"});
  const Graph graph = apart(lowered(step));
  const std::vector<sim::CostTable> prices{sim::price(graph, step.hardware, step.pricing)};
  sim::EngineOptions options = step.engine;
  options.capacity = 0;
  options.contention = contention;
  options.memory = memory;
  std::uint32_t steps = 0;
  for (auto _ : state) {
    const auto simulation = sim::simulate(graph, prices, options);
    if (!simulation || simulation->oom) return state.SkipWithError("did not run");
    steps = simulation->steps;
  }
  counters(state, graph, steps);
}
BENCHMARK_CAPTURE(eight_classes, allocator_and_contention, true, true)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(eight_classes, contention, true, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(eight_classes, neither, false, false)->Unit(benchmark::kMillisecond);

// Ops of a step grow with the micro-batches; time and memory must grow alike.
void scale(benchmark::State& state) {
  const ReferenceStep step = reference_step({fmt::format("train.grad_accum={}", state.range(0))});
  std::uint32_t steps = 0;
  Graph graph;
  for (auto _ : state) {
    graph = lowered(step);
    const std::vector<sim::CostTable> prices{sim::price(graph, step.hardware, step.pricing)};
    const auto simulation = sim::simulate(graph, prices, step.engine);
    if (!simulation || simulation->oom) return state.SkipWithError("did not run");
    steps = simulation->steps;
  }
  counters(state, graph, steps);
  state.counters["peak_rss_MiB"] = peak_rss_mib();
}
BENCHMARK(scale)
    ->RangeMultiplier(8)
    ->Range(2, 1024)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1)
    ->UseRealTime();

}  // namespace
