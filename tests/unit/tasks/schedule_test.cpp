// What cannot become a schedule, in every form that a source has.
#include "tasks/schedule.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/base/file.h"
#include "tasks/simulate.h"
#include "tasks/stages.h"
#include "tasks/thunder_source.h"
#include "tests/support/places.h"
#include "tests/support/scratch.h"

using namespace foregather;
using Catch::Contains;
using tasks::load_schedule;
using tasks::Sources;

namespace {

const std::string kSampleFolder = test::source_dir() + "/traces/samples/";
const std::string kInputFolder = test::source_dir() + "/tests/golden/inputs/";

std::string refusal(const Sources& sources, const std::vector<std::string>& sets = {}) {
  const auto schedule = load_schedule(sources, sets, {});
  return schedule ? "" : schedule.error().text();
}

std::string dump_of(const std::string& source) {
  tasks::SimulateRequest request;
  request.sources.paths = {source};
  request.dump = true;
  auto outcome = tasks::simulate(request);
  if (!outcome) FAIL(outcome.error().text());
  return outcome->dump;
}

void replace(std::string& text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a machine that is none is refused whatever the schedule comes from") {
  const test::Scratch scratch;
  const std::vector<std::vector<std::string>> sources{
      {kSampleFolder + "tiny_fsdp2.toml"},
      {scratch.write("a.fg", dump_of(kSampleFolder + "tiny_fsdp2.toml"))},
      {kSampleFolder + "thunder_tied_linear.txt"},
      {kInputFolder + "chakra/pipe.0.et", kInputFolder + "chakra/pipe.1.et"},
      {kInputFolder + "kineto_small.json"}};
  for (const auto& paths : sources) {
    CAPTURE(paths.front());
    CHECK_THAT(refusal({paths, false, {}}, {"cluster.hardware=abacus"}),
               Catch::StartsWith("--set cluster.hardware=abacus: unknown hardware 'abacus'"));
    CHECK(refusal({paths, false, {}}).empty());
  }
}

TEST_CASE("optimizer states that no tensor is large enough for are said to have no effect") {
  const auto warnings = [](const std::string& sample, const std::vector<std::string>& sets) {
    const auto schedule = load_schedule(Sources{{kSampleFolder + sample}, false, {}}, sets, {});
    if (!schedule) FAIL(schedule.error().text());
    return std::ranges::count_if(schedule->warnings, [](const std::string& warning) {
      return warning.starts_with(
          "--set train.optimizer_state=int8: train.optimizer_state = int8 has "
          "no effect: a tensor has int8 states if it is 4096 elements");
    });
  };
  const std::string narrow = "train.optimizer_state=int8";
  CHECK(warnings("tiny_fsdp2.toml", {narrow}) == 0);
  CHECK(warnings("openvla_zero3.toml", {narrow}) == 1);
  CHECK(warnings("openvla_zero3.toml", {narrow, "parallel.offload=optimizer"}) == 0);
  CHECK(warnings("openvla_zero3.toml", {narrow, "train.optimizer=sgd"}) == 0);
}

TEST_CASE("a dump that frees what is not there is no schedule") {
  const test::Scratch scratch;
  std::string dump = dump_of(kSampleFolder + "tiny_fsdp2.toml");
  const auto free = dump.find("      free b");
  REQUIRE(free != std::string::npos);
  const std::string line = dump.substr(free, dump.find('\n', free) + 1 - free);
  dump.insert(free, line);
  const std::string path = scratch.write("twice.fg", dump);
  CHECK_THAT(refusal({{path}, false, {}}),
             Catch::StartsWith(path + ": is no schedule that could run: storage b") &&
                 Contains("is freed while it is not bound"));
}

TEST_CASE("a recorded copy of more bytes than there are is no schedule") {
  const test::Scratch scratch;
  auto trace = nlohmann::json::parse(std::ifstream(kInputFolder + "kineto_small.json"));
  for (auto& event : trace["traceEvents"])
    if (event.value("cat", "") == "gpu_memcpy") event["args"]["bytes"] = std::int64_t{1} << 62;
  const std::string path = scratch.write("a.json", trace.dump());
  CHECK_THAT(refusal({{path}, false, {}}),
             Catch::StartsWith(path + ": cannot be rebuilt as a schedule: ") &&
                 Contains("bytes written 4611686018427387904 is out of range"));
}

TEST_CASE("only a Thunder trace has a backward of its own, and that must be there") {
  const std::string forward = kSampleFolder + "thunder_mlp_zero3_forward.txt";
  CHECK(refusal({{forward, "nowhere.txt"}, true, {}}) ==
        "nowhere.txt: cannot be read: No such file or directory");
  const std::string chakra = kInputFolder + "chakra/pipe.0.et";
  CHECK(refusal({{chakra, kInputFolder + "chakra/pipe.1.et"}, true, {}}) ==
        chakra + ": is no Thunder trace: only those have a backward of their own");
}

TEST_CASE("a step of years is refused, and a device that libraries fill") {
  const test::Scratch scratch;
  const std::string h100 =
      read_file(test::source_dir() + "/sim/cost/hardware/h100_sxm.toml", MiB).value();
  std::string small = h100;
  replace(small, "value = 85018279936", "value = 900000000");
  const std::string path = scratch.write("small.toml", small);
  CHECK(refusal({{kSampleFolder + "tiny_fsdp2.toml"}, false, {}}, {"cluster.hardware=" + path}) ==
        "--set cluster.hardware=" + path +
            ": h100_sxm holds 858.3 MiB, but context and libraries take 920.0 MiB outside the "
            "allocator");

  Graph graph;
  graph.ops.resize(4);
  for (Op& op : graph.ops) op.cost = CostId(0);
  sim::CostTable table;
  table.prices.resize(1);
  constexpr Ns kYear = 31'500'000'000'000'000;
  table.prices[0].duration = kYear / 2;
  CHECK(tasks::check_step_length(graph, table));
  table.prices[0].duration = kYear;
  const Status refused = tasks::check_step_length(graph, table);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().text() ==
        "the ops of a step take 4 years: check the hardware's figures and the workload's sizes");
}

TEST_CASE("what a simulation left open is warned of") {
  sim::Simulation simulation;
  simulation.converged = true;
  CHECK(tasks::warnings_of(simulation).empty());
  simulation.unresolved_synchronizations = 2;
  simulation.converged = false;
  simulation.steps = 9;
  CHECK(tasks::warnings_of(simulation) ==
        std::vector<std::string>{
            "the step had not settled after 9 steps",
            "2 allocator synchronisations with other rank classes taken as instant"});
}

TEST_CASE("a Thunder trace that ends without a return is warned of, and one of no ranks refused") {
  const test::Scratch scratch;
  const std::string path = scratch.write(
      "a.txt",
      "def f(a):\n  # a: \"cuda:0 f32[2]\"\n  t0 = torch.add(a, 1)  # t0: \"cuda:0 f32[2]\"\n");
  const auto schedule = load_schedule(path, {}, {});
  if (!schedule) FAIL(schedule.error().text());
  CHECK(std::ranges::count(schedule->warnings, path + ":1:1: 'f' ends without a return") == 1);
  tasks::ThunderText text{path, read_file(path, MiB).value()};
  traces::ThunderGraphOptions options;
  options.world_size = 1U << 30;
  const auto step = tasks::thunder_step(std::array{text}, options);
  REQUIRE_FALSE(step);
  CHECK_THAT(step.error().text(),
             Catch::StartsWith(path + ": a world of 1073741824 ranks, expected 1 to "));
}
