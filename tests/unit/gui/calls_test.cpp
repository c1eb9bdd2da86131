// What recorded calls of the host show.
#include <algorithm>
#include <catch2/catch.hpp>

#include "gui/models/details.h"
#include "gui/models/document.h"
#include "gui/models/flows.h"
#include "gui/models/lanes.h"
#include "gui/models/navigation.h"
#include "gui/models/residuals.h"
#include "gui/models/search.h"
#include "gui/models/summary.h"
#include "tests/support/example_run.h"
#include "tests/unit/gui/opened.h"

using namespace foregather;
using namespace foregather::gui;
using test::opened;

namespace {

constexpr Span kLaunch{0, SpanKind::call, 0};

// With a second thread, which calls more than the first.
run::Run two_threads() {
  run::Run run = test::example_run();
  const auto thread =
      run.add(run::ThreadInfo{run::ClassRow(0), run.text("17"), run.text("autograd")});
  for (const Ns time : {100, 104, 108})
    run.add(run::HostCallRecord{thread, run.text("cudaEventRecord"), time, time + 2});
  return run;
}

std::string refusal(const std::function<void(run::Run&)>& damage) {
  run::Run run = test::example_run();
  damage(run);
  const auto session =
      Session::open({{std::make_shared<const run::Run>(std::move(run)), "bad.db", {}}});
  return session ? "" : session.error().text();
}

}  // namespace

TEST_CASE("calls: the thread that calls most comes first") {
  const Session session = opened({two_threads()});
  std::vector<std::string> names;
  for (const Lane& lane : build_lanes(session))
    for (const LaneSide& side : lane.sides)
      if (side.kind == SpanKind::call && !side.tracks.empty()) names.push_back(side.name);
  REQUIRE(names.size() == 2);
  CHECK(names[0].find("autograd") != std::string::npos);
  CHECK(names[1].find("main") != std::string::npos);
}

TEST_CASE("calls: their name, when and how long, and the ops that they launched") {
  const Session session = opened({test::example_run()});
  CHECK(full_name(session, kLaunch) == "cudaLaunchKernel");
  CHECK(range_of(session, kLaunch) == TimeRange{6, 8});  // the step begins at 90
  std::vector<std::pair<std::string, std::string>> rows;
  for (const Detail& row : details(session, kLaunch)) rows.emplace_back(row.name, row.value);
  CHECK(rows == std::vector<std::pair<std::string, std::string>>{
                    {"run", "predicted, example"}, {"start", "6 ns"}, {"duration", "2 ns"}});
  const Flows flows(session);
  const auto launched = flows.of(kLaunch);
  REQUIRE(launched.size() == 1);
  CHECK(launched[0].kind == FlowKind::launch);
  CHECK(launched[0].from == kLaunch);
  CHECK(launched[0].to == Span{0, SpanKind::op, 0});
  CHECK(launched[0].from_time == 8);
  CHECK(launched[0].to_time == 10);
  CHECK(flows.of({0, SpanKind::call, 1}).empty());  // a wait for an event
  CHECK(search(session, "CUDASTREAM") == std::vector{Span{0, SpanKind::call, 1}});
}

TEST_CASE("session: calls, steps and allocations at damaged times are refused") {
  constexpr Ns kFar = Ns{1} << 62;
  const std::string why = " ends before it begins, or lies centuries away";
  CHECK(refusal([](run::Run& run) { run.calls[1].end = run.calls[1].start - 1; }) ==
        "bad.db: is damaged: call 1" + why);
  CHECK(refusal([](run::Run& run) { run.calls[0].start = -kFar; }) ==
        "bad.db: is damaged: call 0" + why);
  CHECK(refusal([](run::Run& run) { run.steps[1].end = kFar; }) ==
        "bad.db: is damaged: step 1" + why);
  CHECK(refusal([](run::Run& run) { run.bindings[0].freed = kFar; }) ==
        "bad.db: is damaged: allocation 0" + why);
  CHECK(refusal([](run::Run&) {}).empty());
}

TEST_CASE("session: a run of ranks alone has a time to show") {
  run::Run run;
  run.add(run::ClassInfo{run.text("rank"), {0}});
  const Session session = opened({std::move(run)});
  CHECK(session.extent() == TimeRange{0, 1});
  CHECK(session.steps() == TimeRange{0, 1});
}

TEST_CASE("badges: a step that lies over the one that is shown") {
  run::Run run = test::example_run();
  run::StepInfo over = run.steps[0];
  over.kind = run::StepKind::other;
  over.number = 7;
  run.steps.insert(run.steps.begin(), over);
  for (run::StepRow& step : run.ops.step) step = run::StepRow(step.row() + 1);
  for (auto& binding : run.bindings) binding.step = run::StepRow(0);
  for (auto& failure : run.failures) failure.step = run::StepRow(failure.step.row() + 1);
  const std::string_view text = "test.db: step 7 of fast, 60 ns, lies over the one that is shown";
  const auto lines_of = [&](const Session& session) {
    std::vector<std::string> lines;
    for (const Badge& badge : badges(session))
      lines.insert(lines.end(), badge.lines.begin(), badge.lines.end());
    return lines;
  };
  CHECK(std::ranges::count(lines_of(opened({run})), text) == 1);
  run.steps[0].kind = run::StepKind::first;
  CHECK(std::ranges::count(lines_of(opened({run})),
                           "test.db: the first step of fast, 60 ns, lies over the one that is "
                           "shown") == 1);
}

TEST_CASE("residuals: of two runs without a common rank it is said that there are none") {
  run::Run other = test::example_run();
  other.classes[0].ranks = {8, 9};
  other.classes[1].ranks = {10};
  const Session session = opened({test::example_run(), std::move(other)});
  CHECK(why_no_residuals(&session) ==
        "The runs have no ops in common ranks: there is nothing to compare");
}

TEST_CASE("view: what is selected stays so where another version still has it") {
  const auto document = [](run::Run run) {
    auto opened = Document::open({{std::make_shared<const run::Run>(std::move(run)), "a.db", {}}});
    if (!opened) FAIL(opened.error().text());
    return *opened;
  };
  const auto old = document(test::example_run());
  ViewState view = first_view(old->session, old->lanes);
  view.selected = Span{0, SpanKind::op, 2, 0};
  run::Run later = test::example_run();
  later.ops.end[2] += 5;
  CHECK(continued_view(view, *old, *document(later)).selected == view.selected);
  later.ops.kind[2] = OpKind::norm;
  CHECK_FALSE(continued_view(view, *old, *document(later)).selected);
  view.selected = kLaunch;  // of a host that may go another way
  CHECK_FALSE(continued_view(view, *old, *document(test::example_run())).selected);
}
