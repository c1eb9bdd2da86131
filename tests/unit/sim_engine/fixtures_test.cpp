// Every producer's fixture goes through the engine.
#include <catch2/catch.hpp>

#include "slow_engine.h"
#include "core/ir/dump.h"
#include "sim/engine/engine.h"
#include "tests/fixtures/fixtures.h"

namespace foregather::sim {
namespace {

// Ten different durations, some host time, and demands that make overlapped ops slow each other.
std::vector<CostTable> made_up_prices(const Graph& graph) {
  CostTable table;
  table.sources.push_back("made up");
  for (std::size_t row = 0; row < graph.costs.size(); ++row) {
    Price price;
    price.duration = 1000 + 370 * static_cast<Ns>(row % 10);
    price.host = 200;
    price.demand = {kWhole * 3 / 4, kWhole / 2, 0, 0};
    table.prices.push_back(price);
  }
  table.host = {.alloc = 50, .free = 40, .record = 30, .wait = 20, .synchronize = 100};
  std::size_t rows = 1;
  for (const RankClass& rank_class : graph.classes)
    rows = std::max(rows, std::size_t{rank_class.hardware} + 1);
  return std::vector<CostTable>(rows, table);
}

std::vector<SlowTime> times_of(const StepResult& step) {
  std::vector<SlowTime> times(step.ops.size());
  for (std::size_t i = 0; i < times.size(); ++i)
    if (step.ran[i] != 0)
      times[i] = {step.ops[i].issued, step.ops[i].start, step.ops[i].transfer, step.ops[i].end};
  return times;
}

}  // namespace

TEST_CASE("every fixture simulates, as the slow engine does") {
  for (const auto& [name, make] : test::all_fixtures()) {
    CAPTURE(name);
    const Graph graph = make();
    const auto prices = made_up_prices(graph);
    for (const bool contention : {false, true}) {
      CAPTURE(contention);
      EngineOptions options;
      options.contention = contention;
      const auto with_memory = simulate(graph, prices, options);
      REQUIRE(with_memory);
      CHECK_FALSE(with_memory->oom);
      CHECK(with_memory->classes.front().steady.time() > 0);

      options.memory = false;
      const auto fast = simulate(graph, prices, options);
      REQUIRE(fast);
      const auto slow = simulate_slowly(graph, prices, contention, fast->steps);
      for (std::size_t c = 0; c < slow.size(); ++c) {
        CHECK((times_of(fast->classes[c].first) == slow[c][1]));
        CHECK((times_of(fast->classes[c].steady) == slow[c][fast->steps]));
      }
    }
  }
}

TEST_CASE("a fixture read back from its dump simulates alike") {
  for (const auto& [name, make] : test::all_fixtures()) {
    CAPTURE(name);
    const Graph graph = make();
    const auto again = read_dump(dump(graph), name);
    REQUIRE(again);
    const auto a = simulate(graph, made_up_prices(graph), {});
    const auto b = simulate(*again, made_up_prices(*again), {});
    REQUIRE(a);
    REQUIRE(b);
    for (std::size_t c = 0; c < a->classes.size(); ++c) {
      CHECK((times_of(a->classes[c].steady) == times_of(b->classes[c].steady)));
      CHECK(a->classes[c].steady.peaks.reserved == b->classes[c].steady.peaks.reserved);
    }
  }
}

}  // namespace foregather::sim
