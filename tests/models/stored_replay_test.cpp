// Runs of our own database as sources: they replay as what they were imported from, or are
// predicted again.
#include <fstream>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/store/reader.h"
#include "tasks/import_run.h"
#include "tasks/outputs.h"
#include "tasks/simulate.h"
#include "tests/support/places.h"
#include "tests/support/scratch.h"
#include "tests/support/skip.h"

namespace foregather::test {
namespace {

tasks::Outcome replayed_stored(const std::string& path, std::vector<std::string> what_if,
                               std::optional<std::int64_t> step = {}) {
  tasks::SimulateRequest request;
  request.sources.paths = {path};
  request.sources.step = step;
  request.what_if = std::move(what_if);
  auto outcome = tasks::simulate(request);
  if (!outcome) FAIL(outcome.error().text());
  return std::move(*outcome);
}

/// Traces with at least 100 kernels, Kineto's and Nsight Systems'.
std::vector<std::string> large_traces(const std::string& root) {
  const auto facts = nlohmann::json::parse(std::ifstream(root + "/facts.json"));
  std::vector<std::string> paths;
  for (const auto& [path, figures] : facts.items())
    if ((path.starts_with("kineto/") || path.starts_with("nsys/")) &&
        figures.value("kernels", std::int64_t{0}) >= 100)
      paths.push_back(root + "/" + path);
  return paths;
}

void check_same(const tasks::Outcome& trace, const tasks::Outcome& stored) {
  CHECK(stored.summary.step_time() == trace.summary.step_time());
  CHECK(stored.summary.measured_step_time() == trace.summary.measured_step_time());
  REQUIRE(stored.summary.recorded.size() == trace.summary.recorded.size());
  for (std::size_t i = 0; i < trace.summary.recorded.size(); ++i) {
    CHECK(stored.summary.recorded[i].unexplained == trace.summary.recorded[i].unexplained);
    CHECK(stored.summary.recorded[i].recorded_deps == trace.summary.recorded[i].recorded_deps);
    CHECK(stored.summary.recorded[i].inferred_deps == trace.summary.recorded[i].inferred_deps);
  }
  CHECK(stored.run.ops.end == trace.run.ops.end);
  CHECK(stored.run.ops.kind == trace.run.ops.kind);
  CHECK(stored.run.ops.phase == trace.run.ops.phase);
}

std::string small_trace() { return source_dir() + "/tests/golden/inputs/kineto_small.json"; }
std::string sample_text() { return source_dir() + "/traces/samples/tiny_fsdp2.toml"; }

std::string stored(const Scratch& folder, const std::string& trace, bool& is_whole) {
  const std::string path = folder.path("run.db");
  const auto files = tasks::import_files({trace});
  REQUIRE(files);
  const auto imported = tasks::import_run(*files, {}, path);
  if (!imported) FAIL(imported.error().text());
  is_whole = imported->warnings.empty();
  return path;
}

std::string predicted(const Scratch& folder, const tasks::SimulateRequest& request) {
  const std::string path = folder.path("predicted.db");
  auto outcome = tasks::simulate(request);
  REQUIRE(outcome);
  auto outputs = tasks::Outputs::open(path, {}, {});
  REQUIRE(outputs);
  REQUIRE(outputs->write({&outcome->run, 1}, {}, {}));
  return path;
}

}  // namespace

TEST_CASE("a stored run replays as its trace, changed or not") {
  const Scratch folder;
  bool is_whole = false;
  const std::string path = stored(folder, small_trace(), is_whole);
  CHECK(is_whole);
  check_same(replayed_stored(small_trace(), {}), replayed_stored(path, {}));
  check_same(replayed_stored(small_trace(), {}, 3), replayed_stored(path + ":kineto_small", {}, 3));
  check_same(replayed_stored(small_trace(), {"scale=links:0.5"}),
             replayed_stored(path, {"scale=links:0.5"}));
  tasks::SimulateRequest request;
  request.sources.paths = {path};
  request.sources.step = 4;
  CHECK(tasks::simulate(request).error().text() == path + ": has no step 4, expected one of 3");
}

TEST_CASE("every shared trace replays from the database as from its file") {
  const auto root = shared_data("facts.json");
  if (!root) FOREGATHER_SKIP("the shared traces are absent");
  for (const std::string& trace : large_traces(root->parent_path())) {
    INFO(trace);
    const Scratch folder;
    bool is_whole = false;
    const std::string path = stored(folder, trace, is_whole);
    const tasks::Outcome again = replayed_stored(path, {});
    const Ns measured = again.summary.measured_step_time();
    CHECK(std::abs(*again.summary.step_time() - measured) <= measured / 50);
    if (!is_whole) continue;
    check_same(replayed_stored(trace, {}), again);
    check_same(replayed_stored(trace, {"scale=compute:2"}),
               replayed_stored(path, {"scale=compute:2"}));
  }
}

TEST_CASE("a stored prediction of a workload is predicted again, with what it was asked for") {
  const Scratch folder;
  tasks::SimulateRequest request;
  request.sources.paths = {sample_text()};
  request.sets = {"model.layers=2"};
  request.what_if = {"scale=links:0.5"};
  const std::string path = predicted(folder, request);
  const Ns step = *replayed_stored(sample_text(), {}).summary.step_time();
  const tasks::Outcome again = replayed_stored(path, {});
  CHECK(again.summary.step_time() == tasks::simulate(request)->summary.step_time());
  CHECK(again.summary.step_time() != step);
  CHECK(again.run.about.options == "--set model.layers=2\n--what-if scale=links:0.5\n");
  CHECK(std::find(again.inputs.begin(), again.inputs.end(), path) != again.inputs.end());
  request.what_if.emplace_back("scale=compute:2");
  CHECK(replayed_stored(path, {"scale=compute:2"}).summary.step_time() ==
        tasks::simulate(request)->summary.step_time());
}

TEST_CASE("a stored prediction without a workload replays its steady step") {
  const Scratch folder;
  tasks::SimulateRequest request;
  request.sources.paths = {sample_text()};
  request.dump = true;
  const auto outcome = tasks::simulate(request);
  REQUIRE(outcome);
  request.sources.paths = {folder.write("step.fg", outcome->dump)};
  const std::string path = predicted(folder, request);
  const tasks::Outcome again = replayed_stored(path, {});
  const Ns measured = again.summary.measured_step_time();
  CHECK(measured > 0);
  CHECK(std::abs(*again.summary.step_time() - measured) <= measured / 50);
}

}  // namespace foregather::test
