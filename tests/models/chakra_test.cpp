// Chakra graphs by hand, and against ASTRA-sim.
#include <algorithm>
#include <catch2/catch.hpp>

#include "sim/engine/engine.h"
#include "tasks/simulate.h"
#include "tests/support/chakra_bytes.h"
#include "tests/support/skip.h"
#include "traces/chakra_graph.h"

using namespace foregather;
using test::attribute;
using test::chakra_file;
using test::NodeBytes;

namespace {

// A collective that takes a given time: all that these tests need of one.
NodeBytes communication(std::uint64_t id, std::uint64_t kind, std::uint64_t microseconds,
                        std::vector<std::uint64_t> deps) {
  return {id, "comm", 7, {}, std::move(deps), microseconds, {attribute("comm_type", kind)}};
}

// By class, of one execution whose nodes take their durations.
std::vector<Ns> step_times(const std::vector<std::string>& files) {
  std::vector<traces::ChakraTrace> traces;
  for (const std::string& file : files) {
    const auto source = traces::text_of(file);
    traces.push_back(traces::read_chakra(*source, "t.et").value());
  }
  std::vector<traces::ChakraClass> classes;
  for (std::uint32_t rank = 0; rank < traces.size(); ++rank)
    classes.push_back({&traces[rank], {rank}});
  const auto graph = traces::chakra_graph(classes, {});
  if (!graph) FAIL(graph.error().text());
  sim::CostTable prices;
  for (const Cost& cost : graph->graph.costs) {
    sim::Price price;
    price.duration = cost.fixed_time;
    prices.prices.push_back(price);
  }
  prices.host.launch_queue = 0;
  sim::EngineOptions options;
  options.contention = options.memory = false;
  const auto simulation = sim::simulate(graph->graph, {&prices, 1}, options);
  if (!simulation) FAIL(simulation.error().text());
  std::vector<Ns> times;
  for (const sim::ClassResult& result : simulation->classes) times.push_back(result.steady.time());
  return times;
}

Ns chakra_step_time(const std::string& file) { return step_times({file}).front(); }

Ns chakra_step_time(const std::filesystem::path& folder) {
  tasks::SimulateRequest request;
  request.sources.paths = {folder / "fsdp.0.et.gz"};
  for (int rank = 1; rank < 8; ++rank)
    request.sources.paths.push_back(folder / ("fsdp." + std::to_string(rank) + ".et.gz"));
  const auto outcome = tasks::simulate(request);
  if (!outcome) FAIL(outcome.error().text());
  REQUIRE(outcome->summary.classes.size() == 1);
  CHECK(outcome->summary.classes.front().ranks.size() == 8);
  CHECK(outcome->summary.world_size == 8);
  CHECK(outcome->summary.warnings.size() == 2);  // of memory, and of groups that are not declared
  return outcome->summary.step_time().value();
}

}  // namespace

TEST_CASE("independent nodes of one resource run one after the other") {
  CHECK(chakra_step_time(chakra_file({{1, "a", 4, {}, {}, 1000}, {2, "b", 4, {}, {}, 1000}})) ==
        2'000'000);
  CHECK(chakra_step_time(chakra_file({{1, "a", 4, {}, {}, 1000}, communication(2, 2, 700, {})})) ==
        1'000'000);
}

TEST_CASE("a node that is ready does not wait behind one that is not") {
  // In the file the reduction of the first layer comes before the gather that the second needs:
  //   compute  |----- 1 ------|----- 2 ------|
  //   comm     |gather|       |reduce|
  CHECK(chakra_step_time(chakra_file({{1, "first", 4, {}, {}, 1000},
                                      communication(2, 7, 400, {1}),
                                      communication(3, 2, 300, {}),
                                      {4, "second", 4, {}, {1, 3}, 1000}})) == 2'000'000);
}

TEST_CASE("ranks meet in their collectives, in one order") {
  const auto rank = [](std::uint64_t first, std::uint64_t second) {
    return chakra_file({{1, "a", 4, {}, {}, first},
                        {2, "b", 4, {}, {}, second},
                        communication(3, 0, 100, {1}),
                        communication(4, 0, 100, {2}),
                        {5, "c", 4, {}, {3, 4}, 50}});
  };
  // Compute is serial: 500, 700; the slower rank decides when the second collective begins.
  for (const Ns time : step_times({rank(500, 200), rank(500, 400)}))
    CHECK(time == (500 + 400 + 100 + 50) * 1000);
}

TEST_CASE("a send waits for its receive") {
  const auto comm = [](std::uint64_t type) {
    return NodeBytes{
        2, "p2p", type, {}, {1}, 80, {attribute("comm_src", 0), attribute("comm_dst", 1)}};
  };
  const auto times = step_times({chakra_file({{1, "a", 4, {}, {}, 500}, comm(5)}),
                                 chakra_file({{1, "a", 4, {}, {}, 900}, comm(6)})});
  CHECK(times[1] == 980'000);
}

TEST_CASE("dependencies in a circle are an error that names it") {
  const std::string file = chakra_file({{1, "a", 4, {}, {2}, 5}, {2, "b", 4, {}, {1}, 5}});
  const auto source = traces::text_of(file);
  const auto trace = traces::read_chakra(*source, "t.et").value();
  const traces::ChakraClass alone[] = {{&trace, {0}}};
  const auto graph = traces::chakra_graph(alone, {});
  REQUIRE_FALSE(graph);
  CHECK(graph.error().text() ==
        "t.et: data dependencies go in a circle of 2 nodes: node 1 'a' waits for node 2 'b', "
        "expected none");
}

// ASTRA-sim's own figures for these files, on 400 GB/s a GPU: 2.8860 s and 2.8916 s, 144.299 s and
// 144.579 s by its two network models, 144.085 s to 144.842 s by its other settings.
TEST_CASE("FSDP steps take what ASTRA-sim says") {
  const auto folder = test::shared_data("chakra");
  if (!folder) FOREGATHER_SKIP("the shared Chakra traces are absent");
  const Ns one = chakra_step_time(*folder / "fsdp_8x400");
  CHECK(one > 2'880'000'000);
  CHECK(one < 2'910'000'000);
  const Ns fifty = chakra_step_time(*folder / "fsdp_8x20000");
  CHECK(fifty > 144'000'000'000);
  CHECK(fifty < 145'500'000'000);
}
