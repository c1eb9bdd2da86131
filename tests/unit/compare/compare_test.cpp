#include <limits>
#include <random>
#include <catch2/catch.hpp>

#include "core/compare/critical_path.h"
#include "core/compare/exposed.h"
#include "core/compare/intervals.h"
#include "core/compare/memory_causes.h"
#include "core/compare/recorded_timeline.h"
#include "core/compare/step_begins.h"
#include "core/run/replay.h"
#include "tests/support/example_run.h"

using namespace foregather;
using namespace foregather::compare;

namespace {

// A recorded step whose work begins at 100, and one before it that ended at `before`.
run::Run recorded_run(std::optional<Ns> before) {
  run::Run run = test::example_run();
  run.about.kind = run::RunKind::measured;
  run.about.strategy.clear();
  run.steps[0].begin = 100;
  if (!before) return run;
  run::StepInfo earlier = run.steps[0];
  earlier.number = 0;
  earlier.begin = 1;
  earlier.end = *before;
  run.add(earlier);
  return run;
}

}  // namespace

TEST_CASE("unions join what touches and forget what is empty") {
  CHECK(united({{5, 7}, {1, 3}, {3, 4}, {9, 9}}) == IntervalSet{{1, 4}, {5, 7}});
  CHECK(united({}).empty());
  CHECK(length(united({{0, 10}, {2, 3}})) == 10);
}

TEST_CASE("sums over a timeline saturate") {
  constexpr Ns kLong = std::numeric_limits<Ns>::max() / 3;
  run::Recording recording;
  recording.lanes.push_back({});
  for (int i = 0; i < 4; ++i) {
    run::ActivityColumns& rows = recording.activities;
    rows.lane.emplace_back(0);
    rows.name.push_back(recording.strings.intern(i < 2 ? "some" : "all"));
    rows.start.push_back(i < 2 ? 0 : -kLong);
    rows.end.push_back(kLong);
    recording.timeline.step.emplace_back();
  }
  const TimelineFigures figures = timeline_figures(recording);
  CHECK(figures.names.at("some").time == 2 * kLong);
  CHECK(figures.names.at("all").time == std::numeric_limits<Ns>::max());
  CHECK(figures.names.at("all").count == 2);
  CHECK(figures.overlapping_pairs == 3);
}

TEST_CASE("what grows while it is appended unites to the same") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<Interval> all, grown;
    for (int i = 0; i < 30; ++i) {
      const Ns begin = random() % 100;
      const Interval next{begin, begin + static_cast<Ns>(random() % 10)};
      all.push_back(next);
      append(grown, next);
    }
    CHECK(united(grown) == united(all));
  }
}

TEST_CASE("intersections") {
  CHECK(intersection({{0, 10}, {20, 30}}, {{5, 25}}) == IntervalSet{{5, 10}, {20, 25}});
  CHECK(intersection({{0, 10}}, {{10, 20}}).empty());
}

TEST_CASE("busy times by hand") {
  const run::Run run = test::example_run();
  const BusyTimes fast = busy_times(run, run::StepRow(0));
  CHECK(fast.compute == 30);
  CHECK(fast.comm == 15);
  CHECK(fast.exposed == 15);
  CHECK(fast.wait == 5);
  CHECK(fast.transfer == 15);
  CHECK(fast.wire_bytes == 3072);
  CHECK(fast.ops == 3);
  const CollectiveUse& gathers = fast.by_kind[static_cast<std::size_t>(OpKind::all_gather)];
  CHECK(gathers.count == 1);
  CHECK(gathers.bytes == 4096);
  CHECK(gathers.busy == 15);
  CHECK(gathers.exposed == 15);
}

TEST_CASE("the critical path goes over to the rank that came last") {
  const run::Run run = test::example_run();
  const CriticalPath path = critical_path(run, run::StepRow(0));
  REQUIRE(path.steps.size() == 4);
  CHECK(path.steps[0].op == run::OpRow(3));  // the straggler's gemm
  CHECK(path.steps[0].time == 15);
  CHECK(path.steps[0].gap == 10);  // from the begin of the step
  CHECK(path.steps[1].op == run::OpRow(4));
  CHECK(path.steps[1].time == 0);
  CHECK(path.steps[2].op == run::OpRow(1));
  CHECK(path.steps[2].time == 15);
  CHECK(path.steps[3].time == 20);
  CHECK(path.compute + path.comm + path.host + path.other == 60);
  const auto longest = path.longest(2);
  REQUIRE(longest.size() == 2);
  CHECK(longest[0].op == run::OpRow(3));  // 15 behind a gap of 10
  CHECK(longest[1].op == run::OpRow(2));
}

TEST_CASE("steps are compared from the end of the step before where both know it") {
  using Begins = std::pair<Ns, Ns>;
  const run::Run predicted = test::example_run();
  const run::StepRow step(0);
  const auto beside = [&](const run::Run& other) {
    return step_begins(predicted, step, other, step);
  };
  CHECK(beside(predicted) == Begins{90, 90});
  CHECK(beside(recorded_run(70)) == Begins{90, 70});
  CHECK(beside(recorded_run(120)) == Begins{90, 120});  // its work began before that
  CHECK(beside(recorded_run({})) == Begins{100, 100});
  run::Run apart = recorded_run(70);
  apart.steps[0].number = 2;
  CHECK(beside(apart) == Begins{100, 100});  // a step between them was not recorded
  CHECK(beside(recorded_run(151)) == Begins{100, 100});
  run::Run replay = test::example_run();
  replay.about.strategy = run::kReplay;
  replay.steps[0].begin = 95;  // as a what-if delays its rank
  CHECK(step_begins(replay, step, recorded_run(70), step) == Begins{95, 100});
  CHECK(step_begins(recorded_run(70), step, recorded_run(60), step) == Begins{70, 60});
}

TEST_CASE("a critical path from another begin than its step's") {
  const run::Run run = test::example_run();
  const CriticalPath path = critical_path(run, run::StepRow(0), 70);
  CHECK(path.steps[0].gap == 30);
  CHECK(path.compute + path.comm + path.host + path.other == 80);
}

TEST_CASE("a path of one op that the host launched late") {
  run::Run run = test::example_run();
  run.ops.bound_by[2] = {};
  run.ops.reason[2] = run::BoundReason::host;
  const CriticalPath path = critical_path(run, run::StepRow(0));
  REQUIRE(path.steps.size() == 1);
  // The host is on its way for 40, and the device has other work in 30 of them.
  CHECK(path.steps[0].gap == 40);
  CHECK(path.steps[0].beside == 30);
  CHECK(path.host == 10);
  CHECK(path.beside_compute == 10);
  CHECK(path.beside_comm == 15);
  CHECK(path.other == 5);  // of its collective, until the other rank comes
  CHECK(path.compute == 20 + 10);
  CHECK(path.comm == 15);
}

TEST_CASE("what a set covers of an interval") {
  const IntervalSet set{{10, 20}, {30, 40}, {50, 60}};
  CHECK(covered(set, {0, 100}) == 30);
  CHECK(covered(set, {15, 35}) == 10);
  CHECK(covered(set, {20, 30}) == 0);
  CHECK(covered(set, {32, 33}) == 1);
  CHECK(covered(set, {60, 70}) == 0);
  CHECK(covered({}, {0, 1}) == 0);
}

TEST_CASE("who holds the peak: as the run names it, else by its allocations") {
  run::Run run = test::example_run();
  const auto of = [](const MemoryAtPeak& peak, Cause cause) {
    return peak.by_cause[static_cast<std::size_t>(cause)];
  };
  const MemoryAtPeak named = memory_at_peak(run, run::StepRow(0));
  CHECK(named.is_inferred);
  CHECK(named.total() == 1024);
  CHECK(of(named, Cause::unsharded_parameter) == 1024);
  run.causes.clear();
  run::BindingRecord more = run.bindings.front();
  more.cause = Cause::gradient;
  more.block_bytes = 512;
  more.allocated = 140;  // when the first one is freed
  run.add(more);
  CHECK(memory_at_peak(run, run::StepRow(0)).total() == 1024);
  run.bindings.back().allocated = 139;
  MemoryAtPeak peak = memory_at_peak(run, run::StepRow(0));
  CHECK(peak.total() == 1536);
  CHECK(of(peak, Cause::gradient) == 512);
  peak.by_cause[static_cast<std::size_t>(Cause::optimizer_state)] = 7;
  peak.by_cause[static_cast<std::size_t>(Cause::reduced_gradient)] = 3;
  fold_as_inferred(peak);
  CHECK(of(peak, Cause::persistent) == 7);
  CHECK(of(peak, Cause::gradient) == 515);
  CHECK(peak.total() == 1546);
  CHECK(memory_at_peak(run, run::StepRow(1)).total() == 0);
}
