// Each rank class in the JSON has the figures that the job has.
#include <set>
#include <string>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/ir/dump.h"
#include "tasks/simulate.h"
#include "tests/fixtures/fixtures.h"
#include "tests/support/places.h"
#include "tests/unit/plan/temporary_file.h"

using namespace foregather;
using nlohmann::json;

namespace {

json simulated(const Graph& graph) {
  const test::TemporaryFile file(dump(graph));
  tasks::SimulateRequest request;
  request.sources.paths = {file.path()};
  const auto outcome = tasks::simulate(request);
  if (!outcome) FAIL(outcome.error().text());
  return json::parse(tasks::to_json(outcome->summary));
}

}  // namespace

TEST_CASE("classes have all figures of the job") {
  const std::set<std::string> of_job = {
      "schema",   "source",       "name",          "model",           "strategy",
      "hardware", "memory_model", "world_size",    "parameters",      "what_if",
      "warnings", "classes",      "critical_path", "collective_keys", "simulated_in_ns"};
  const json job = simulated(test::chakra_dag());
  REQUIRE(job["classes"].size() == 3);
  for (const auto& [key, value] : job.items()) {
    if (of_job.contains(key)) continue;
    for (const json& each : job["classes"]) {
      CAPTURE(key, each["name"]);
      CHECK(each.contains(key));
    }
  }
}

TEST_CASE("the job's figures are those of its slowest and its largest class") {
  const json job = simulated(test::chakra_dag());
  std::int64_t step = 0, bound = 0, reserved = 0, high = 0;
  for (const json& each : job["classes"]) {
    step = std::max(step, each["step_time_ns"].get<std::int64_t>());
    bound = std::max(bound, each["step_time_bound_ns"].get<std::int64_t>());
    reserved = std::max(reserved, each["peak_reserved_bytes"].get<std::int64_t>());
    high = std::max(high, each["interval"]["step_time_ns"][1].get<std::int64_t>());
    CHECK(each["step_time_bound_ns"] <= each["step_time_ns"]);
    CHECK(each["interval"]["step_time_ns"][0] <= each["step_time_ns"]);
    CHECK(each["fits"]["margin_bytes"] >= job["fits"]["margin_bytes"]);
    CHECK(each["peak_memory_bound_bytes"] <= job["peak_memory_bound_bytes"]);
  }
  CHECK(job["step_time_ns"] == step);
  CHECK(job["step_time_bound_ns"] == bound);
  CHECK(job["peak_reserved_bytes"] == reserved);
  CHECK(job["interval"]["step_time_ns"][1] == high);
}

TEST_CASE("the job's first step is the longest one, whichever class is the slowest later") {
  tasks::Summary summary;
  summary.has_memory = false;
  for (const auto& [first, steady] : {std::pair(300, 100), std::pair(200, 150)}) {
    tasks::ClassFigures& figures = summary.classes.emplace_back();
    figures.ranks = {0};
    figures.first_step = first;
    figures.times.emplace().step = steady;
  }
  summary.slowest = 1;
  const json job = json::parse(tasks::to_json(summary));
  CHECK(job["step_time_ns"] == 150);
  CHECK(job["first_step"]["step_time_ns"] == 300);
  CHECK(job["classes"][1]["first_step"]["step_time_ns"] == 200);
}

TEST_CASE("a job of one class and that class are the same") {
  const json job = simulated(test::gradient_accumulation());
  REQUIRE(job["classes"].size() == 1);
  for (const auto& [key, value] : job["classes"][0].items()) {
    if (key == "name" || key == "ranks" || key == "first_rank") continue;
    CAPTURE(key);
    CHECK(job[key] == value);
  }
}

TEST_CASE("after an out-of-memory the class says what the job says") {
  tasks::SimulateRequest request;
  request.sources.paths = {test::source_dir() + "/traces/samples/tiny_fsdp2.toml"};
  request.sets = {"train.micro_batch=4096", "train.seq_len=2048"};
  const auto outcome = tasks::simulate(request);
  REQUIRE(outcome.has_value());
  const json job = json::parse(tasks::to_json(outcome->summary));
  const json& all = job["classes"][0];
  REQUIRE(job["oom"].is_object());
  CHECK(all["oom"] == job["oom"]);
  CHECK(all["fits"] == job["fits"]);
  CHECK(all["fits"]["answer"] == "no");
  CHECK(all["step_time_bound_ns"].is_null());
  CHECK(all["interval"]["step_time_ns"].is_null());
}
