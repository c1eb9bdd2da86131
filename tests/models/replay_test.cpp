// Unchanged replays of recorded runs: only durations are taken from a recording, and its step comes
// back.
#include <cstdlib>
#include <fstream>
#include <map>
#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/compare/recorded_busy.h"
#include "tasks/import.h"
#include "tasks/simulate.h"
#include "tests/support/repetitions.h"
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

tasks::Outcome replayed_what_if(std::vector<std::string> paths, std::vector<std::string> what_if) {
  tasks::SimulateRequest request;
  request.sources.paths = std::move(paths);
  request.what_if = std::move(what_if);
  auto outcome = tasks::simulate(request);
  if (!outcome) FAIL(outcome.error().text());
  return std::move(*outcome);
}

Ns exposed(const tasks::Outcome& outcome) { return outcome.summary.slow().times->busy.exposed; }

}  // namespace

TEST_CASE("an unchanged replay takes as long as the recorded step, on every stream") {
  const auto root = shared_data("facts.json");
  if (!root) FOREGATHER_SKIP("the shared traces are absent");
  for (const std::string& path : recorded_traces(root->parent_path(), 1)) {
    INFO(path);
    const tasks::Outcome outcome = replayed_what_if({path}, {});
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
    const tasks::Outcome as_is = replayed_what_if({path}, {});
    const tasks::Outcome slow = replayed_what_if({path}, {"scale=compute:0.5"});
    const tasks::Outcome fast = replayed_what_if({path}, {"scale=compute:2"});
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
  for (const char* name :
       {"kineto/hta/trace_diff__control__control.json.gz",
        "kineto/hta/trace_diff__test__test.json.gz", "kineto/megatron_tp8/kineto_0.json.gz"}) {
    INFO(name);
    const std::string path = root->parent_path().string() + "/" + name;
    const tasks::Outcome as_is = replayed_what_if({path}, {});
    const tasks::Outcome slow = replayed_what_if({path}, {"scale=links:0.5"});
    REQUIRE(slow.summary.as_recorded);
    CHECK(slow.summary.as_recorded->step == *as_is.summary.step_time());
    CHECK(slow.summary.as_recorded->exposed == exposed(as_is));
    const Ns longer = *slow.summary.step_time() - *as_is.summary.step_time();
    CHECK(longer > 0);
    const Ns newly_exposed = exposed(slow) - exposed(as_is);
    CHECK(longer <= exposed(as_is) + newly_exposed);
  }
}

TEST_CASE("a step without one of its collectives is shorter by what that one exposed, at most") {
  const auto root = shared_data("facts.json");
  if (!root) FOREGATHER_SKIP("the shared traces are absent");
  Ns largest = 0;
  for (const char* name : {"kineto/hta/trace_diff__control__control.json.gz",
                           "kineto/megatron_tp8/kineto_0.json.gz"}) {
    const std::string path = root->parent_path().string() + "/" + name;
    const tasks::Outcome as_is = replayed_what_if({path}, {});
    for (int i = 0; i < 60; i += kSanitized ? 18 : 6) {
      INFO(name << " #" << i);
      const tasks::Outcome without =
          replayed_what_if({path}, {fmt::format("scale=op:*@*#{}:1e6", i)});
      REQUIRE(without.summary.what_if.front().changed);
      const Ns shorter = *as_is.summary.step_time() - *without.summary.step_time();
      CHECK(shorter >= 0);
      CHECK(shorter <= exposed(as_is) - exposed(without));
      largest = std::max(largest, shorter);
    }
  }
  // Both hosts are behind their devices.
  CHECK(largest > 0);
}

TEST_CASE("recorded ranks wait for each other, and an unchanged replay is what was recorded") {
  const auto root = shared_data("facts.json");
  if (!root) FOREGATHER_SKIP("the shared traces are absent");
  const std::string data = root->parent_path().string();
  std::vector<std::string> megatron;
  for (int rank = 0; rank < 4; ++rank)
    megatron.push_back(fmt::format("{}/kineto/megatron_tp8/kineto_{}.json.gz", data, rank));
  const std::vector<std::string> dlrm{data + "/kineto/param/tests__inputs__dlrm_kineto.tar.gz"};
  const auto facts = nlohmann::json::parse(std::ifstream(data + "/facts.json"));
  for (const auto& paths : {megatron, dlrm}) {
    INFO(paths.front());
    const tasks::Outcome outcome = replayed_what_if(paths, {});
    const tasks::Summary& summary = outcome.summary;
    CHECK(summary.slow().times->busy.wait > 0);
    REQUIRE(summary.recorded.size() >= 4);
    for (std::size_t i = 0; i < summary.recorded.size(); ++i) {
      const tasks::RecordedFigures& rank = summary.recorded[i];
      INFO(rank.source);
      CHECK(std::abs(summary.classes[i].times->step - rank.measured) <= rank.measured / 1000);
      CHECK(rank.pinned <= rank.streams);
      CHECK(rank.matched > 0);
      REQUIRE(rank.clock);
      CHECK(std::abs(rank.clock->offset) < 50 * kMicrosecond);  // of one host
      CHECK(rank.clock->uncertainty < 50 * kMicrosecond);
      // Streams are as busy as they were, waits in collectives included.
      const auto& streams = facts.at(rank.source.substr(data.size() + 1)).at("streams");
      const run::Run& run = outcome.run;
      std::map<std::string, Ns> busy;
      for (std::size_t op = 0; op < run.ops.size(); ++op) {
        const run::StepInfo& step = run.steps[run.ops.step[op].row()];
        if (step.rank_class.row() != i || step.kind != run::StepKind::steady) continue;
        busy[std::string(run.text_of(run.streams[run.ops.stream[op].row()].name))] +=
            run.ops.end[op] - run.ops.start[op];
      }
      for (const auto& [stream, figures] : streams.items()) {
        INFO(stream);
        const double recorded = figures.at("busy_us").get<double>() * 1000;
        CHECK(std::abs(static_cast<double>(busy[stream]) - recorded) <= recorded / 1000);
      }
    }
  }
}

TEST_CASE("a recorded rank that is late makes the others wait") {
  const auto root = shared_data("facts.json");
  if (!root) FOREGATHER_SKIP("the shared traces are absent");
  std::vector<std::string> paths;
  for (int rank = 0; rank < 4; ++rank)
    paths.push_back(fmt::format("{}/kineto/megatron_tp8/kineto_{}.json.gz",
                                root->parent_path().string(), rank));
  const tasks::Outcome as_is = replayed_what_if(paths, {});
  // Rank 0 comes last to the first all-reduce.
  const tasks::Outcome late = replayed_what_if(paths, {"delay=rank:0:20ms"});
  for (std::size_t rank = 1; rank < 4; ++rank) {
    const Ns longer =
        late.summary.classes[rank].times->step - as_is.summary.classes[rank].times->step;
    CHECK(longer > 19 * kMillisecond);
    CHECK(longer <= 20 * kMillisecond);
  }
}

TEST_CASE("groups of a rank that was recorded alone have all the ranks that the recording names") {
  const auto path = shared_data("kineto/hta/data__nccl_parser_config__nccl_data.json.gz");
  if (!path) FOREGATHER_SKIP("the shared traces are absent");
  const tasks::Outcome outcome = replayed_what_if({path->string()}, {});
  REQUIRE_FALSE(outcome.summary.collectives.empty());
  for (const tasks::CollectiveFigure& collective : outcome.summary.collectives)
    CHECK(collective.ranks > 1);
}

TEST_CASE("the ideal step of the straggling pipeline is the published one") {
  const auto root = shared_data("pipeline/straggler/data__timeline-ST.json.gz");
  if (!root) FOREGATHER_SKIP("the shared timeline is absent");
  const tasks::Outcome as_is = replayed_what_if({root->string()}, {});
  const Ns measured = as_is.summary.measured_step_time();
  CHECK(measured > 2200 * kMillisecond);  // 2,213 ms: the median of 32 steps
  CHECK(std::abs(*as_is.summary.step_time() - measured) <= measured / 1000);
  const tasks::Outcome ideal = replayed_what_if({root->string()}, {"ideal"});
  const Ns published = 1'843'296 * kMicrosecond;
  CHECK(std::abs(*ideal.summary.step_time() - published) <= kMicrosecond);
  // Nearly all of it is compute, and what ranks wait for.
  const tasks::Outcome faster = replayed_what_if({root->string()}, {"scale=compute:2"});
  CHECK(*faster.summary.step_time() > measured / 2);
  CHECK(*faster.summary.step_time() < measured * 11 / 20);
}

}  // namespace foregather::test
