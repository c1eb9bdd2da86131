#include "gui/models/session.h"

#include <functional>
#include <catch2/catch.hpp>

#include "core/compare/replayed.h"
#include "gui/models/collective_parts.h"
#include "gui/models/details.h"
#include "gui/models/flows.h"
#include "gui/models/lanes.h"
#include "gui/models/search.h"
#include "gui/models/summary.h"
#include "gui/models/totals.h"
#include "tests/support/example_run.h"
#include "tests/unit/gui/opened.h"

using namespace foregather;
using namespace foregather::gui;
using test::opened;

namespace {

run::Run measured_example() {
  run::Run run = test::example_run();
  run.about.kind = run::RunKind::measured;
  for (Ns* time : {&run.ops.end[2], &run.steps[0].end}) *time += 10;
  return run;
}

std::string detail(const Session& session, const Span& span, std::string_view what) {
  for (const Detail& row : details(session, span))
    if (row.name == what) return row.value;
  return "absent";
}

}  // namespace

TEST_CASE("session: a run alone shows every class") {
  const Session session = opened({test::example_run()});
  REQUIRE(session.pairs().size() == 2);
  CHECK(session.pairs()[0].title() == "rank 0");
  CHECK(session.pairs()[0].sides[0]->busy.exposed == 15);
  CHECK_FALSE(session.pairs()[0].matching);
  CHECK(session.on_axis(0, 90) == 0);  // where the step begins
  CHECK(session.steps() == TimeRange{0, 60});
  CHECK(session.steps_of_hosts() == TimeRange{0, 60});
}

TEST_CASE("session: an op that stands for several ranks is that of the lane it is chosen in") {
  run::Run measured = measured_example();
  measured.classes[0].ranks = {0};
  measured.classes[1].ranks = {1};
  const Session session = opened({test::example_run(), std::move(measured)});
  REQUIRE(session.pairs().size() >= 2);
  const run::OpRow op(2);
  REQUIRE(session.pairs()[1].sides[0]->step == session.pairs()[0].sides[0]->step);
  CHECK(session.pair_of(0, op, {}) == std::size_t{0});
  CHECK(session.pair_of(0, op, 1) == std::size_t{1});
  CHECK(session.pair_of(0, op, 99) == std::size_t{0});
  const auto* first = session.group_of(0, op, 0);
  const auto* second = session.group_of(0, op, 1);
  REQUIRE(first != nullptr);
  REQUIRE(second != nullptr);
  CHECK(first != second);
  CHECK(detail(session, Span{0, SpanKind::op, 2}, "met") ==
        detail(session, Span{0, SpanKind::op, 2, 0}, "met"));
  CHECK(Span{0, SpanKind::op, 2, 0} == Span{0, SpanKind::op, 2, 1});
}

TEST_CASE("session: ranks of two runs meet, and lie over each other") {
  run::Run late = measured_example();
  for (auto* column : {&late.ops.issued, &late.ops.start, &late.ops.transfer, &late.ops.end})
    for (Ns& time : *column) time += 1000;
  for (run::StepInfo& step : late.steps) step.begin += 1000, step.end += 1000;
  const Session session = opened({test::example_run(), std::move(late)});
  REQUIRE(session.pairs().size() == 2);
  CHECK(session.on_axis(0, 90) == session.on_axis(1, 1090));
  REQUIRE(session.pairs()[0].matching);
  CHECK(session.pairs()[0].matching->matched == 3);
  CHECK(session.group_of(1, run::OpRow(2), {})->first_time == 20);
  CHECK(session.group_of(1, run::OpRow(2), {})->second_time == 30);
}

TEST_CASE("session: steps begin where compared ones do") {
  run::Run recorded = measured_example();
  recorded.about.strategy.clear();
  for (run::StepInfo& step : recorded.steps) step.begin = 100;
  run::Run predicted = test::example_run();
  recorded.failures.clear();
  predicted.failures.clear();
  {
    const Session session = opened({predicted, recorded});
    CHECK(session.on_axis(0, 100) == 0);
    CHECK(session.on_axis(1, 100) == 0);
    CHECK(five_figures(session)[0].value[0] == 50);
    CHECK(five_figures(session)[0].value[1] == 60);
  }
  run::StepInfo earlier = recorded.steps[0];
  earlier.number = 0;
  earlier.begin = 1;
  earlier.end = 70;
  recorded.add(earlier);
  const Session session = opened({predicted, recorded});
  CHECK(session.on_axis(0, 90) == 0);
  CHECK(session.on_axis(1, 70) == 0);
  CHECK(five_figures(session)[0].value[1] == 90);
  CHECK(session.pairs()[0].sides[1]->path.steps.front().gap == 30);
}

TEST_CASE("session: a replay of all steps lies over all steps") {
  run::Run measured = measured_example();
  measured.about.strategy.clear();
  run::StepInfo earlier = measured.steps[0];
  earlier.number = 0;
  earlier.begin = 10;
  earlier.end = 80;
  measured.add(earlier);
  for (run::StepInfo& step : measured.steps) step.kind = run::StepKind::other;
  run::sort_steps(measured);
  run::Run replay = test::example_run();
  {
    const Session session = opened({replay, measured});
    CHECK(session.on_axis(1, 80) == session.on_axis(0, 90));  // the last step
  }
  replay.about.strategy = run::kReplay;
  {
    const Session session = opened({replay, measured});
    CHECK(session.on_axis(1, 10) == session.on_axis(0, 90));
    CHECK(session.run(1).steps.size() == 2);
  }
  replay.about.options = "--step 0\n";
  const Session session = opened({replay, measured});
  CHECK(session.on_axis(1, 10) == session.on_axis(0, 90));
  CHECK(session.run(1).steps.size() == 3);
}

TEST_CASE("session: rank of a class that stands for many") {
  run::Run only_three = measured_example();
  only_three.classes[0].ranks = {3};
  const Session session = opened({test::example_run(), std::move(only_three)});
  CHECK(session.pairs()[0].title() == "rank 3");  // the first run's class of ranks 0, 1, 3
}

TEST_CASE("session: damaged times are refused, not drawn") {
  for (const Ns end : {Ns{1}, Ns{1} << 62U}) {
    run::Run run = test::example_run();
    run.ops.end[1] = end;
    const auto session =
        Session::open({{std::make_shared<const run::Run>(std::move(run)), "bad.db", {}}});
    REQUIRE_FALSE(session);
    CHECK(session.error().text().starts_with("bad.db: is damaged: op 1"));
  }
  const auto empty = Session::open({{std::make_shared<const run::Run>(), "empty.db", {}}});
  CHECK(empty.error().text() == "empty.db: has no ranks to show");
}

TEST_CASE("lanes: streams of both runs that share work share a lane") {
  run::Run second = measured_example();
  // Named by number, in another order.
  second.streams[0].name = second.text("stream 20");
  second.streams[1].name = second.text("stream 7");
  const Session session = opened({test::example_run(), std::move(second)});
  const auto lanes = build_lanes(session);
  REQUIRE(lanes.size() == 6);  // of each of two ranks: host, compute, comm
  CHECK(lanes[0].is_host);
  CHECK(lanes[0].sides[0].kind == SpanKind::call);
  CHECK(lanes[0].sides[0].tracks[0].size() == 2);
  CHECK(lanes[3].is_host);  // no thread was recorded: when ops were launched
  CHECK(lanes[3].sides[0].kind == SpanKind::launch);
  CHECK(lanes[3].sides[0].tracks[0].size() == 3);
  CHECK(lanes[1].label() == "compute | stream 20");
  CHECK(lanes[2].label() == "comm | stream 7");
  REQUIRE(lanes[1].residuals.size() == 1);
  CHECK(lanes[1].residual(0, 0, 2) == std::array<Ns, 2>{30, 40});
  CHECK(lanes[1].residual(0, 1, 2) == std::array<Ns, 2>{20, 30});
  CHECK(lanes[1].sides[0].critical.size() == 1);  // the last gemm; before it another rank's
  CHECK(lanes[1].sides[0].tracks[0].begin(0) == 10);
}

TEST_CASE("lanes: streams of one name share a lane before those that share more work") {
  run::Run second = measured_example();
  second.ops.stream[2] = second.ops.stream[1];  // the longer of two products, with the gather
  const Session session = opened({test::example_run(), std::move(second)});
  const auto lanes = build_lanes(session);
  CHECK(lanes[1].label() == "compute");
  CHECK(lanes[1].depth(0) * lanes[1].depth(1) > 0);
  CHECK(lanes[2].label() == "comm");
  CHECK(lanes[2].depth(0) * lanes[2].depth(1) > 0);
}

TEST_CASE(
    "lanes: ops that meet by phase, over several streams, count for the stream that they ran on") {
  const auto run_of = [](run::RunKind kind, const char* long_stream, const char* short_stream) {
    run::Run run;
    run.about.kind = kind;
    const auto rank = run.add(run::ClassInfo{run.text("all"), {0}});
    run::StepInfo step;
    step.rank_class = rank;
    step.kind = run::StepKind::steady;
    step.end = 120;
    run::OpRecord op;
    op.step = run.add(step);
    op.phase = Phase::forward;
    op.kind = kind == run::RunKind::measured ? OpKind::softmax : OpKind::gemm;
    const bool is_short_first = kind == run::RunKind::measured;
    const auto add = [&](const char* stream, Ns begin, Ns end) {
      op.stream = run.add(run::StreamInfo{rank, run.text(stream), 0});
      op.issued = op.start = op.transfer = begin;
      op.end = end;
      run.add(op);
    };
    if (is_short_first) add(short_stream, 0, 10);
    add(long_stream, 20, 120);
    if (!is_short_first) add(short_stream, 110, 120);
    return run;
  };
  const Session session = opened({run_of(run::RunKind::predicted, "compute", "copies"),
                                  run_of(run::RunKind::measured, "stream 7", "stream 20")});
  REQUIRE(session.pairs()[0].matching->matched == 1);
  std::vector<std::string> labels;
  for (const Lane& lane : build_lanes(session))
    if (!lane.is_host) labels.push_back(lane.label());
  CHECK(labels == std::vector<std::string>{"compute | stream 7", "copies | stream 20"});
}

TEST_CASE("lanes: what overlaps goes to further tracks") {
  run::Run run = test::example_run();
  run.ops.start[2] = run.ops.transfer[2] = 105;
  const auto session = opened({std::move(run)});
  const auto lanes = build_lanes(session);
  CHECK(lanes[1].sides[0].tracks.size() == 2);
}

TEST_CASE("lanes: ops in any order of rows lie in order of time") {
  constexpr std::uint32_t kOps = 1000;
  const auto row_of = GENERATE(
      as<std::function<std::uint32_t(std::uint32_t)>>(), [](std::uint32_t i) { return i; },
      [](std::uint32_t i) { return i ^ 1U; },           // neighbours swapped
      [](std::uint32_t i) { return i * 617 % kOps; });  // far apart
  run::Run run;
  const auto rank = run.add(run::ClassInfo{run.text("all"), {0}});
  run::OpRecord op;
  op.stream = run.add(run::StreamInfo{rank, run.text("compute"), 0});
  run::StepInfo step;
  step.rank_class = rank;
  step.kind = run::StepKind::steady;
  step.end = Ns{10} * kOps;
  op.step = run.add(step);
  for (std::uint32_t i = 0; i < kOps; ++i) {
    op.start = op.transfer = op.issued = Ns{10} * row_of(i);
    op.end = op.start + 10;
    run.add(op);
  }
  const auto lanes = build_lanes(opened({run}));
  REQUIRE(lanes.size() == 2);
  for (const Lane& lane : lanes) {
    REQUIRE(lane.sides[0].tracks.size() == 1);
    const Track& track = lane.sides[0].tracks[0];
    REQUIRE(track.size() == kOps);
    bool is_each_in_place = true;
    for (std::uint32_t i = 0; i < kOps; ++i)
      is_each_in_place &= track.begin(i) == Ns{10} * i && row_of(track.item(i)) == i;
    CHECK(is_each_in_place);
  }
}

TEST_CASE("session: a step over the one that figures are of is told, not drawn or found") {
  run::Run run = test::example_run();
  run::StepInfo first = run.steps[0];
  first.kind = run::StepKind::first;
  run.steps.insert(run.steps.begin(), first);
  for (run::StepRow& step : run.ops.step) step = run::StepRow(step.row() + 1);
  for (auto& binding : run.bindings) binding.step = run::StepRow(0);
  run.ops.step[0] = run::StepRow(0);
  const auto session = opened({std::move(run)});
  CHECK_FALSE(session.is_shown(0, run::StepRow(0)));
  CHECK(session.is_shown(0, run::StepRow(1)));
  CHECK(RankMemory(session, 0, *session.pairs()[0].sides[0]).total().empty());
  CHECK(search(session, "gemm").size() == 2);
}

TEST_CASE("collectives: parts add up, and agree with the busy times") {
  run::Run run = test::example_run();
  run.ops.end[0] = 120;  // computes into the transfer that begins at 115
  const Session session = opened({std::move(run)});
  const RankStep& rank = *session.pairs()[0].sides[0];
  const auto parts = collective_parts(session, 0, rank, run::OpRow(1));
  REQUIRE(parts.size() == 3);
  CHECK(parts[0].part == CommPart::wait);
  CHECK(parts[0].range == TimeRange{20, 25});
  CHECK(parts[1].part == CommPart::hidden);
  CHECK(parts[1].range == TimeRange{25, 30});
  CHECK(parts[2].part == CommPart::exposed);
  CHECK(parts[2].range.length() == rank.busy.exposed);
  CHECK(collective_parts(session, 0, rank, run::OpRow(0)).empty());
}

TEST_CASE("flows: launch, wait and gather") {
  const Session session = opened({test::example_run()});
  const Flows flows(session);
  const auto of_gather = flows.of({0, SpanKind::op, 1});
  std::size_t outgoing = 0;
  for (const Flow& flow : of_gather) outgoing += flow.from == Span{0, SpanKind::op, 1} ? 1 : 0;
  CHECK(of_gather.front().kind == FlowKind::launch);
  CHECK(of_gather.front().from.kind == SpanKind::launch);
  CHECK(outgoing == 1);  // to the gemm behind it
  const auto of_launch = flows.of({0, SpanKind::launch, 1});
  REQUIRE(of_launch.size() == 1);
  CHECK(of_launch[0].to == Span{0, SpanKind::op, 1});
}

TEST_CASE("totals of a whole step are its busy times") {
  const Session session = opened({test::simulated_tiny({}), test::simulated_tiny({})});
  const auto lanes = build_lanes(session);
  std::vector<PairMemory> memory{pair_memory(session, session.pairs()[0])};
  std::vector<std::size_t> all(lanes.size());
  for (std::size_t l = 0; l < all.size(); ++l) all[l] = l;
  const RangeTotals totals = range_totals(session, lanes, memory, all, session.steps());
  REQUIRE(totals.pairs.size() == 1);
  const RankStep& rank = *session.pairs()[0].sides[0];
  for (std::size_t side = 0; side < 2; ++side) {
    const RankTotals& of_rank = *totals.pairs[0].sides[side];
    CHECK(of_rank.compute == rank.busy.compute);
    CHECK(of_rank.comm == rank.busy.comm);
    CHECK(of_rank.exposed == rank.busy.exposed);
    CHECK(of_rank.wait == rank.busy.wait);
    CHECK(of_rank.wire_bytes == rank.busy.wire_bytes);
    CHECK(of_rank.ops == rank.busy.ops);
    REQUIRE(of_rank.peak);
  }
  Ns busy = 0;
  for (const LaneTotals& lane : totals.lanes)
    if (lanes[lane.lane].label() == "default") busy = lane.busy[0];
  CHECK(busy > 0);
}

TEST_CASE("totals: of a transfer that reaches beyond the range the part in it is sent there") {
  const Session session = opened({test::example_run()});  // on the axis a transfer from 25 to 40
  const auto lanes = build_lanes(session);
  const auto sent = [&](TimeRange range) {
    return range_totals(session, lanes, {}, {1}, range).pairs[0].sides[0]->wire_bytes;
  };
  CHECK(sent({0, 60}) == 3072);
  CHECK(sent({0, 30}) == 1024);
  CHECK(sent({30, 60}) == 2048);
  CHECK(sent({20, 24}) == 0);
}

TEST_CASE("search finds by scope, phase, kind and source, in any case") {
  const Session session = opened({test::example_run()});
  CHECK(search(session, "").empty());
  CHECK(search(session, "GEMM").size() == 3);
  CHECK(search(session, "attn/forward/gemm").size() >= 1);
  CHECK(search(session, "all_gather").size() == 2);
  CHECK(search(session, "roofline").size() == 6);
  CHECK(search(session, "no such op").empty());
}

TEST_CASE("details say what an op met") {
  const Session session = opened({test::example_run(), measured_example()});
  const Span span{0, SpanKind::op, 2};
  CHECK(detail(session, span, "predicted") == "20 ns");
  CHECK(detail(session, span, "measured") == "30 ns");
  CHECK(detail(session, span, "error") == "-33.3 %");
  CHECK(detail(session, span, "source of the time") == "roofline");
  CHECK(full_name(session, {0, SpanKind::op, 0}) == "r0/s1/m0/layers.0.attn/forward/gemm/0");
}

TEST_CASE("details say when an op begins to the nanosecond, however late that is") {
  run::Run run = test::example_run();
  constexpr Ns kLate = 1'234'567'890;
  for (auto* column : {&run.ops.issued, &run.ops.start, &run.ops.transfer, &run.ops.end})
    (*column)[2] += kLate;
  run.ops.end[2] += 2000;
  run.steps[0].end += kLate + 2000;
  const Session session = opened({std::move(run)});
  CHECK(detail(session, {0, SpanKind::op, 2}, "start") == "1.234567930 s");
  CHECK(detail(session, {0, SpanKind::op, 2}, "duration") == "2.02 µs");
  for (const Detail& row : details(session, {0, SpanKind::op, 2}))
    CHECK(row.at.has_value() == (row.name == "start"));
}

TEST_CASE("details call what met by the sides that are open") {
  const Span span{0, SpanKind::op, 2};
  {
    const Session session = opened({measured_example(), test::example_run()});
    CHECK(detail(session, span, "measured") == "30 ns");
    CHECK(detail(session, span, "predicted") == "20 ns");
    CHECK(detail(session, span, "error") == "+50.0 %");
  }
  run::Run longer = test::example_run();
  longer.ops.end[2] += 10;
  const Session session = opened({test::example_run(), std::move(longer)});
  CHECK(detail(session, span, "A") == "20 ns");
  CHECK(detail(session, span, "B") == "30 ns");
  CHECK(detail(session, span, "measured") == "absent");
}

TEST_CASE("a recording that does not say when ops were launched shows no launches") {
  run::Run run = measured_example();
  run.calls.clear();
  run.waits.clear();
  for (Ns& time : run.ops.issued) time = 0;
  run.ops.launch = {};
  run.ops.launch.resize(run.ops.size());
  const Session session = opened({run});
  CHECK_FALSE(session.knows_launches(0));
  CHECK(session.extent().begin == 0);
  CHECK(session.steps_of_hosts() == session.steps());
  CHECK(detail(session, {0, SpanKind::op, 1}, "launched") == "absent");
  for (const Lane& lane : build_lanes(session)) CHECK_FALSE(lane.is_host);
  for (const Flow& flow : Flows(session).of({0, SpanKind::op, 1}))
    CHECK(flow.kind != FlowKind::launch);

  run.ops.issued[1] = 90;
  const Session known = opened({run});
  CHECK(known.knows_launches(0));
  CHECK(detail(known, {0, SpanKind::op, 1}, "launched") == "20 ns before");
}

TEST_CASE("session: two jobs are called so among the warnings, as by compare") {
  run::Run measured = measured_example();
  measured.about.world_size = 2 * test::example_run().about.world_size;
  const auto warnings = [](const Session& session) {
    std::vector<std::string> lines;
    for (const Badge& badge : badges(session))
      if (badge.text.find("warning") != std::string::npos) lines = badge.lines;
    return lines;
  };
  const auto said = warnings(opened({test::example_run(), std::move(measured)}));
  REQUIRE(said.size() == 1);
  CHECK(said[0].ends_with("they are two jobs"));
  CHECK(warnings(opened({test::example_run(), test::example_run()})).empty());
}

TEST_CASE("lanes: a class that meets several ranks has its work in the lanes of each") {
  run::Run apart = measured_example();
  apart.classes[0].ranks = {0};
  apart.classes[1].ranks = {1};
  const Session session = opened({test::example_run(), std::move(apart)});
  REQUIRE(session.pairs().size() == 3);  // and rank 2, which the first run alone has
  REQUIRE(session.pairs()[0].sides[0]->rank_class == session.pairs()[1].sides[0]->rank_class);
  std::vector<std::size_t> spans(3);
  for (const Lane& lane : build_lanes(session))
    if (lane.sides[0].kind == SpanKind::op && !lane.is_host)
      for (const Track& track : lane.sides[0].tracks) spans[lane.pair] += track.size();
  CHECK(spans == std::vector<std::size_t>{3, 3, 3});
}
