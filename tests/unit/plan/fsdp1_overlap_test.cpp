// How long a unit's backward takes with each prefetch, on a device where only matmuls and
// collectives take time (PyTorch §G.5, "steady-state backward period per unit").
#include <set>
#include <string_view>
#include <catch2/catch.hpp>

#include "core/plan/lower.h"
#include "sim/engine/engine.h"
#include "tests/unit/plan/toy_model.h"

using namespace foregather;
using namespace foregather::plan;
using namespace foregather::test;

namespace {

struct Times {
  Ns compute, gather, reduce;  ///< of one unit's backward, in ms
};

// Host work of some tens of µs per unit hides behind milliseconds.
sim::CostTable prices(const Graph& graph, const Times& times) {
  constexpr std::int64_t kMatmulsOfBackward = 4;
  sim::CostTable table;
  table.sources.emplace_back("by hand");
  for (const Cost& cost : graph.costs) {
    sim::Price& price = table.prices.emplace_back();
    if (cost.kind == OpKind::gemm)
      price.duration = times.compute * kMillisecond / kMatmulsOfBackward;
    if (cost.kind == OpKind::all_gather) price.duration = times.gather * kMillisecond;
    if (cost.kind == OpKind::reduce_scatter) price.duration = times.reduce * kMillisecond;
  }
  return table;
}

/// Between the reduce-scatters of two blocks amid a steady backward, rounded to ms.
Ns period(const Workload& workload, const Times& times) {
  ToyShape shape;
  shape.layers = 12;
  const Result<Graph> graph = lower(toy_model(shape), workload);
  REQUIRE(graph);
  const std::vector<sim::CostTable> tables{prices(*graph, times)};
  const Result<sim::Simulation> run = sim::simulate(*graph, tables, {});
  REQUIRE(run);
  const Program& program = graph->programs[0];
  const auto end_of = [&](std::string_view scope) -> Ns {
    for (std::uint32_t row = program.ops.first; row < program.ops.end(); ++row) {
      const Op& op = graph->ops[row];
      if (op.kind == OpKind::reduce_scatter && graph->scope_name(op.scope) == scope &&
          run->classes[0].steady.ran[row - program.ops.first] != 0)
        return run->classes[0].steady.ops[row - program.ops.first].end;
    }
    FAIL("not reduced");
    return 0;
  };
  constexpr Ns kUnits = 4;
  return (end_of("layers.4") - end_of("layers.8") + kUnits * kMillisecond / 2) /
         (kUnits * kMillisecond);
}

/// How many addresses the all-gathers of a steady step write to, the root's left out.
std::size_t destinations(const Workload& workload) {
  ToyShape shape;
  shape.layers = 12;
  const Result<Graph> graph = lower(toy_model(shape), workload);
  REQUIRE(graph);
  const std::vector<sim::CostTable> tables{prices(*graph, {40, 10, 10})};
  const Result<sim::Simulation> run = sim::simulate(*graph, tables, {});
  REQUIRE(run);
  std::set<std::uint64_t> addresses;
  for (const sim::Binding& binding : run->classes[0].steady.bindings) {
    const Storage& storage = graph->at(binding.storage);
    if (storage.cause == Cause::unsharded_parameter &&
        !graph->scope_name(graph->at(storage.unit).scope).empty())
      addresses.insert(binding.address);
  }
  return addresses.size();
}

Workload prefetching(Prefetch prefetch) {
  Workload workload = toy_workload(8);
  workload.parallel.strategy = Strategy::fsdp1;
  workload.parallel.backward_prefetch = prefetch;
  return workload;
}

}  // namespace

TEST_CASE("without prefetch nothing overlaps in FSDP1's backward") {
  CHECK(period(prefetching(Prefetch::none), {40, 10, 10}) == 60);
  CHECK(period(prefetching(Prefetch::none), {40, 30, 30}) == 100);
}

TEST_CASE("with prefetch communication hides behind compute, or compute behind it") {
  for (const Prefetch prefetch : {Prefetch::pre, Prefetch::post}) {
    CHECK(period(prefetching(prefetch), {40, 10, 10}) == 40);
    CHECK(period(prefetching(prefetch), {40, 15, 25}) == 40);
    CHECK(period(prefetching(prefetch), {40, 30, 30}) == 60);
  }
}

TEST_CASE("the limiter costs no time where the device is the bottleneck") {
  Workload workload = prefetching(Prefetch::pre);
  workload.parallel.limit_all_gathers = false;
  CHECK(period(workload, {40, 30, 30}) == 60);
}

// PyTorch §G.3: the limiter lets two destinations exist, with BACKWARD_PRE one more. Without it a
// host that runs ahead takes new memory for each all-gather whose last use is not over.
TEST_CASE("the limiter bounds the memory of all-gathers") {
  CHECK(destinations(prefetching(Prefetch::none)) == 2);
  CHECK(destinations(prefetching(Prefetch::post)) == 2);
  CHECK(destinations(prefetching(Prefetch::pre)) == 3);
  Workload workload = prefetching(Prefetch::pre);
  workload.parallel.limit_all_gathers = false;
  CHECK(destinations(workload) > 10);
}
