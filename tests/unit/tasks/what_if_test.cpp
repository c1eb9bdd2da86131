// What-ifs of whole schedules, as `simulate --what-if` gives them.
#include <catch2/catch.hpp>

#include "tasks/schedule.h"
#include "tasks/simulate.h"
#include "tests/support/places.h"
#include "tests/unit/plan/temporary_file.h"

using namespace foregather;

namespace {

tasks::Outcome changed(const char* sample, std::vector<std::string> what_if, bool dump = false) {
  tasks::SimulateRequest request;
  request.sources.paths = {test::source_dir() + "/traces/samples/" + sample};
  request.what_if = std::move(what_if);
  request.dump = dump;
  auto outcome = tasks::simulate(request);
  if (!outcome) FAIL(outcome.error().text());
  return std::move(*outcome);
}

}  // namespace

TEST_CASE("what-if: DeepCompile's own order stays where a change is no part of it") {
  const char* const sample = "openvla_deepcompile.toml";
  const tasks::Summary before = changed(sample, {}).summary;
  const tasks::Summary delayed = changed(sample, {"delay=before-reduction:1ms"}).summary;
  CHECK(*delayed.step_time() >= *before.step_time());
  CHECK(delayed.classes[0].memory.peaks.allocated == before.classes[0].memory.peaks.allocated);
  CHECK(delayed.warnings.size() == before.warnings.size());
  const tasks::Summary again = changed(sample, {"recompute=full"}).summary;
  CHECK(*again.step_time() > *before.step_time());
  CHECK(again.classes[0].memory.peaks.allocated < before.classes[0].memory.peaks.allocated);
  // Several that leave it nothing it knows, in any order.
  changed(sample, {"delay=before-reduction:1ms", "reshard=never", "recompute=full"});
}

TEST_CASE("what-if: DeepCompile keeps its own order where the one given does nothing") {
  const char* const sample = "openvla_deepcompile.toml";
  const tasks::Summary before = changed(sample, {}).summary;
  for (const char* order : {"order=memory", "order=list", "order=program"}) {
    const tasks::Summary after = changed(sample, {order}).summary;
    CHECK(after.step_time() == before.step_time());
    CHECK(after.classes[0].memory.peaks.allocated == before.classes[0].memory.peaks.allocated);
  }
}

TEST_CASE("what-if: a dump says that it has no prices") {
  const auto warns = [](const tasks::Outcome& outcome) {
    return !outcome.summary.warnings.empty() &&
           outcome.summary.warnings.back().starts_with("--dump: a schedule has no prices");
  };
  CHECK(warns(changed("tiny_fsdp2.toml", {"scale=compute:2"}, true)));
  CHECK_FALSE(warns(changed("tiny_fsdp2.toml", {"reshard=never"}, true)));
  CHECK_FALSE(warns(changed("tiny_fsdp2.toml", {"scale=compute:2"})));
}

TEST_CASE("what-if: a dump says with what its attention is priced, and is read with it") {
  tasks::SimulateRequest request;
  request.sources.paths = {test::source_dir() + "/traces/samples/tiny_fsdp2.toml"};
  request.sets = {"train.attention=flash", "train.attention_speed=0.5", "model.layers=1"};
  request.dump = true;
  const auto written = tasks::simulate(request);
  REQUIRE(written);
  CHECK(written->summary.warnings.back() ==
        "--dump: a schedule has no prices: simulate it with --set train.attention=flash --set "
        "train.attention_speed=0.5");
  const test::TemporaryFile dump(written->dump);
  const auto prices = [](const std::string& source, const std::vector<std::string>& sets) {
    const auto schedule = tasks::load_schedule(source, sets, {});
    if (!schedule) FAIL(schedule.error().text());
    Ns sum = 0;
    for (const sim::Price& price : schedule->prices.front().prices) sum += price.duration;
    return sum;
  };
  const Ns before = prices(request.sources.paths.front(), request.sets);
  const std::vector<std::string> machine{"cluster.hardware=h100_sxm", "cluster.gpus_per_node=4"};
  CHECK(prices(dump.path(), machine) != before);
  std::vector<std::string> same = machine;
  same.insert(same.end(), request.sets.begin(), request.sets.begin() + 2);
  CHECK(prices(dump.path(), same) == before);
}

TEST_CASE("what-if: a replayed recording is one step, in its run and on its viewer's timeline") {
  tasks::SimulateRequest request;
  request.sources.paths = {test::source_dir() + "/tests/golden/inputs/kineto_small.json"};
  const auto outcome = tasks::simulate(request);
  REQUIRE(outcome);
  REQUIRE(outcome->run.steps.size() == 1);
  CHECK(outcome->run.steps[0].kind == run::StepKind::steady);
  CHECK(outcome->summary.slow().first_step == outcome->summary.step_time());
}
