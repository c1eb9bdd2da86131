// Unchanged replays of recorded runs: only durations are taken from a recording, and its step comes
// back.
#include <cstdlib>
#include <fstream>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/compare/recorded_busy.h"
#include "tasks/import.h"
#include "tasks/simulate.h"
#include "tests/support/skip.h"

namespace foregather::test {
namespace {

/// The traces of facts.json with device work, by path.
std::vector<std::string> recorded_traces(const std::string& root, std::int64_t kernels) {
  const auto facts = nlohmann::json::parse(std::ifstream(root + "/facts.json"));
  std::vector<std::string> paths;
  for (const auto& [path, figures] : facts.items())
    if (path.starts_with("kineto/") && figures.value("kernels", std::int64_t{0}) >= kernels)
      paths.push_back(root + "/" + path);
  return paths;
}

tasks::Outcome simulated(const std::string& path, std::vector<std::string> what_if) {
  tasks::SimulateRequest request;
  request.sources.paths = {path};
  request.what_if = std::move(what_if);
  auto outcome = tasks::simulate(request);
  if (!outcome) FAIL(outcome.error().text());
  return std::move(*outcome);
}

}  // namespace

TEST_CASE("an unchanged replay takes as long as the recorded step, on every stream") {
  const auto root = shared_data("facts.json");
  if (!root) FOREGATHER_SKIP("the shared traces are absent");
  for (const std::string& path : recorded_traces(root->parent_path(), 1)) {
    INFO(path);
    const tasks::Outcome outcome = simulated(path, {});
    const Ns measured = outcome.summary.measured_step_time();
    // Lumos, the published record, is 3.3 % off on average.
    CHECK(std::abs(*outcome.summary.step_time() - measured) <= measured / 1000);
    for (const tasks::RecordedFigures& rank : outcome.summary.recorded)
      CHECK(rank.pinned <= rank.streams);
  }
}

TEST_CASE("compute at half speed moves a recorded step between its bounds") {
  const auto root = shared_data("facts.json");
  if (!root) FOREGATHER_SKIP("the shared traces are absent");
  for (const std::string& path : recorded_traces(root->parent_path(), 100)) {
    INFO(path);
    const tasks::Outcome as_is = simulated(path, {});
    const tasks::Outcome slow = simulated(path, {"scale=compute:0.5"});
    const tasks::Outcome fast = simulated(path, {"scale=compute:2"});
    const Ns step = *as_is.summary.step_time();
    const run::Run& run = slow.run;
    // The busiest stream's own time.
    std::vector<Ns> busy(run.streams.size());
    const run::OpSpan ops = run::ops_of(run, run::steps_of(run, run::StepKind::steady).front());
    Ns compute = 0;
    for (std::size_t i = ops.first; i < ops.last; ++i) {
      busy[run.ops.stream[i].row()] += run.ops.end[i] - run.ops.start[i];
      if (!is_collective(run.ops.kind[i])) compute += (run.ops.end[i] - run.ops.start[i]) / 2;
    }
    CHECK(*slow.summary.step_time() >= *std::max_element(busy.begin(), busy.end()));
    CHECK(*slow.summary.step_time() >= step);
    CHECK(*slow.summary.step_time() <= step + compute + 1000);
    CHECK(*fast.summary.step_time() <= step);
  }
}

TEST_CASE("links at half speed cost no more than the communication that they lengthen") {
  const auto root = shared_data("facts.json");
  if (!root) FOREGATHER_SKIP("the shared traces are absent");
  for (const char* name : {"kineto/hta/trace_diff__control__control.json.gz",
                           "kineto/megatron_tp8/kineto_0.json.gz"}) {
    INFO(name);
    const std::string path = root->parent_path().string() + "/" + name;
    const tasks::Outcome as_is = simulated(path, {});
    const tasks::Outcome slow = simulated(path, {"scale=links:0.5"});
    const auto exposed = [](const tasks::Outcome& outcome) {
      return outcome.summary.slow().times->busy.exposed;
    };
    const Ns longer = *slow.summary.step_time() - *as_is.summary.step_time();
    CHECK(longer > 0);
    CHECK(longer <= exposed(as_is) + (exposed(slow) - exposed(as_is)));
  }
}

}  // namespace foregather::test
