// What a point of a sweep costs: Llama-3.1-70B under FSDP2, sequence lengths (each a list of
// actions of its own) × link bandwidths, on one and on two threads.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "tasks/simulate.h"
#include "tasks/sweep.h"
#include "tests/bench/reference_step.h"
#include "tests/support/places.h"

namespace {

constexpr const char* kSource = "/traces/samples/llama3_70b_fsdp2.toml";

using namespace foregather;

class Counted final : public run::SweepSink {
 public:
  Status add(const run::SweepPoint& point) override {
    ++points;
    failed += point.status == run::PointStatus::failed ? 1 : 0;
    return {};
  }
  std::int64_t points = 0, failed = 0;
};

void sweep(benchmark::State& state, std::int64_t lists, std::int64_t prices) {
  tasks::SweepRequest request;
  request.source = test::source_dir() + kSource;
  request.vary = {fmt::format("train.seq_len=1024..{}", 1023 + lists),
                  fmt::format("cluster.link_bandwidth_scale=1..{}+0.01",
                              1 + 0.01 * static_cast<double>(prices - 1))};
  request.jobs = static_cast<std::uint32_t>(state.range(0));
  std::int64_t points = 0;
  for (auto _ : state) {
    const auto asked = tasks::Sweep::open(request);
    Counted rows;
    if (!asked || !asked->run(rows, [](const tasks::SweepProgress&) {}) || rows.failed != 0)
      return state.SkipWithError("did not run");
    points = rows.points;
  }
  state.counters["points"] = static_cast<double>(points);
  state.counters["s_per_point"] = benchmark::Counter(
      static_cast<double>(points),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["peak_rss_MiB"] = bench::peak_rss_mib();
}
BENCHMARK_CAPTURE(sweep, lists_10_prices_100, 10, 100)
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(sweep, lists_100_prices_10, 100, 10)
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(sweep, lists_1000, 1000, 1)
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// The same points as commands of their own would predict them: from the file to the figures.
void point_alone(benchmark::State& state) {
  tasks::SimulateRequest request;
  request.sources.paths = {test::source_dir() + kSource};
  request.record_memory = request.ranges = false;
  int length = 1024;
  for (auto _ : state) {
    request.sets = {fmt::format("train.seq_len={}", length++)};
    const auto outcome = tasks::simulate(request);
    if (!outcome) return state.SkipWithError(outcome.error().text().c_str());
    benchmark::DoNotOptimize(outcome->run.ops.size());
  }
}
BENCHMARK(point_alone)->Unit(benchmark::kMillisecond);

}  // namespace
