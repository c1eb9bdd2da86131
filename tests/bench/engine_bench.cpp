// What an op of a simulation costs by the size of the graph, beside an event queue in a heap and a
// list simulation over flat arrays. No block of the schedule repeats, so that none is skipped.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <numeric>
#include <random>

#include "core/ir/builder.h"
#include "sim/engine/engine.h"
#include "tests/bench/plain_engines.h"

namespace {

using namespace foregather;
using namespace foregather::bench;

constexpr std::size_t kCosts = 997;
constexpr std::size_t kUnit = 8;  // ops: a gather and what uses it
constexpr std::size_t kEvents = 64;

/// One rank's step of that many ops on two streams; each unit's compute waits for its gather.
struct Sized {
  Graph graph;
  std::vector<sim::CostTable> prices{1};
  sim::EngineOptions options;
};

Sized sized(std::size_t ops) {
  GraphBuilder builder;
  const std::vector<std::uint32_t> ranks{0, 1, 2, 3, 4, 5, 6, 7};
  const GroupId group = builder.group("shard", ranks, 1);
  const CommunicatorId communicator = builder.communicator("fsdp", group);
  Sized made;
  std::mt19937 random(1);
  std::vector<CostId> costs, gathers;
  for (std::size_t i = 0; i < kCosts; ++i) {
    Cost cost;
    cost.kind = OpKind::gemm;
    cost.flops = static_cast<std::int64_t>(i + 1);
    costs.push_back(builder.cost(cost));
    cost.kind = OpKind::all_gather;
    cost.message_bytes = static_cast<Bytes>(i + 1);
    cost.group = group;
    gathers.push_back(builder.cost(cost));
    sim::Price price;
    price.host = static_cast<Ns>(3000 + random() % 2000);
    price.duration = static_cast<Ns>(1000 + random() % 8000);
    price.demand[static_cast<std::size_t>(sim::Resource::sm)] = sim::kWhole / 2;
    made.prices[0].prices.insert(made.prices[0].prices.end(), 2, price);
  }
  made.prices[0].sources = {"bench"};
  made.prices[0].host.record = made.prices[0].host.wait = 600;
  made.prices[0].host.launch_queue = 0;

  builder.begin_program("rank");
  const StreamId compute = builder.stream("compute"), gather = builder.stream("gather");
  std::vector<EventId> events(kEvents);
  for (EventId& event : events) event = builder.event();
  builder.select(builder.thread("main"), Section::first);
  for (std::size_t i = 0; i < ops; ++i) {
    OpSpec spec;
    const bool is_gather = i % kUnit == 0;
    spec.kind = is_gather ? OpKind::all_gather : OpKind::gemm;
    spec.role = is_gather ? Role::gather : Role::compute;
    spec.stream = is_gather ? gather : compute;
    if (is_gather) spec.communicator = communicator;
    spec.cost = (is_gather ? gathers : costs)[random() % kCosts];
    builder.launch(builder.op(spec));
    if (!is_gather) continue;
    const EventId event = events[i / kUnit % kEvents];
    builder.record(event, gather);
    builder.wait(compute, event);
  }
  builder.end_program();
  RankClass all;
  all.program = ProgramId(0);
  builder.rank_class(all, ranks);
  builder.graph().world_size = 8;
  made.graph = builder.finish();
  made.options.memory = made.options.record_memory = made.options.contention = false;
  made.options.once = true;
  return made;
}

void per_op(benchmark::State& state) {
  state.counters["ns_per_op"] = benchmark::Counter(
      static_cast<double>(state.range(0)) * 1e-9,
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void engine(benchmark::State& state, bool contention) {
  Sized made = sized(static_cast<std::size_t>(state.range(0)));
  made.options.contention = contention;
  sim::Engine simulator(made.graph, made.options);
  // Then the kernel has given the pages.
  if (auto first = simulator.simulate(made.prices)) simulator.recycle(std::move(*first));
  for (auto _ : state) {
    auto simulation = simulator.simulate(made.prices);
    if (!simulation) return state.SkipWithError(simulation.error().text().c_str());
    benchmark::DoNotOptimize(simulation->classes[0].first.end);
    simulator.recycle(std::move(*simulation));
  }
  per_op(state);
}

template <Ns (*simulate)(const FlatSchedule&, std::vector<PlainTime>&)>
void plain_engine(benchmark::State& state) {
  const Sized made = sized(static_cast<std::size_t>(state.range(0)));
  const auto real = sim::simulate(made.graph, made.prices, made.options);
  const FlatSchedule flat = flat_schedule(made.graph, made.prices[0]);
  std::vector<PlainTime> times;
  Ns end = simulate(flat, times);
  for (auto _ : state) end = simulate(flat, times);
  if (!real || end != real->classes[0].first.end)
    return state.SkipWithError("does not simulate what the engine does");
  per_op(state);
}

void sizes(benchmark::internal::Benchmark* benchmark, std::int64_t most) {
  for (std::int64_t ops = 1000; ops <= most; ops *= 10) benchmark->Arg(ops);
  benchmark->Unit(benchmark::kMillisecond);
}
void to_ten_million(benchmark::internal::Benchmark* benchmark) { sizes(benchmark, 10'000'000); }
void to_a_million(benchmark::internal::Benchmark* benchmark) { sizes(benchmark, 1'000'000); }

BENCHMARK_CAPTURE(engine, no_contention, false)->Apply(to_ten_million);
BENCHMARK_CAPTURE(engine, contention, true)->Apply(to_a_million);
BENCHMARK_TEMPLATE(plain_engine, heap_simulation)->Apply(to_a_million);
BENCHMARK_TEMPLATE(plain_engine, list_simulation)->Apply(to_ten_million);

}  // namespace
