// Pipeline timelines: told from traces of devices, and read by lane and step.
#include "traces/timeline.h"

#include <catch2/catch.hpp>

#include "core/compare/recorded_timeline.h"

using namespace foregather;

namespace {

constexpr std::string_view kTimeline = R"([
{"name":"b","ph":"X","cat":"b","pid":0,"tid":3,"ts":1.5,"dur":2,"args":{"step":7,"mb_id":1,"model_chunk":0,"seq_id":5}},
{"name":"b","ph":"X","cat":"b","pid":0,"tid":3,"ts":3.5004,"dur":2,"args":{"step":7,"mb_id":null}},
{"name":"gc","ph":"X","cat":"gc","pid":1,"tid":3,"ts":-1,"dur":0,"args":{}},
{"name":"thread_name","ph":"M","pid":0,"tid":3,"args":{"name":"PP rank 1, pp-comm"}},
{"name":"thread_name","ph":"M","pid":0,"tid":4,"args":{"name":"misc"}},
{"name":"process_name","ph":"M","pid":0,"args":{"name":"DP rank [0]"}}])";

run::Recording read_lanes(std::string_view text) {
  const auto source = traces::text_of(text);
  auto trace = traces::read_timeline(*source, "t.json");
  if (!trace) FAIL(trace.error().text());
  CHECK(trace->text_bytes == static_cast<Bytes>(text.size()));
  return std::move(trace->recording);
}

}  // namespace

TEST_CASE("timeline: a step makes one, a category of torch.profiler does not") {
  const auto with = [](std::string_view category, std::string_view arguments) {
    return traces::is_timeline(fmt::format(
        R"([{{"ph":"X","cat":"{}","name":"n","pid":0,"tid":0,"ts":1,"dur":1,"args":{{{}}}}}])",
        category, arguments));
  };
  CHECK(with("forward-compute", R"("step": 3)"));
  CHECK(with("forward-compute", R"("step": 7.0)"));
  CHECK_FALSE(with("forward-compute", R"("step": 7.5)"));
  CHECK_FALSE(with("forward-compute", R"("step": 1e30)"));
  CHECK_FALSE(with("forward-compute", R"("step": "three")"));
  CHECK_FALSE(with("forward-compute", ""));
  CHECK_FALSE(with("kernel", R"("step": 3)"));
  CHECK(traces::is_timeline(kTimeline));
  CHECK(traces::is_timeline(kTimeline.substr(0, 300)));
  CHECK(traces::is_timeline("{\"traceEvents\": " + std::string(kTimeline) + "}"));
  CHECK_FALSE(traces::is_timeline(""));
  CHECK_FALSE(traces::is_timeline("hello"));
}

TEST_CASE("timeline: activities have their lane, step and micro-batch") {
  const run::Recording recording = read_lanes(kTimeline);
  const run::ActivityColumns& rows = recording.activities;
  REQUIRE(rows.size() == 3);
  CHECK(rows.start == std::vector<Ns>{1500, 3500, -1000});
  CHECK(rows.lane[0] == rows.lane[1]);
  const run::TimelineColumns& timeline = recording.timeline;
  CHECK(timeline.step == std::vector<std::optional<std::int64_t>>{7, 7, std::nullopt});
  CHECK(timeline.micro_batch[0] == 1);
  CHECK_FALSE(timeline.micro_batch[1]);
  CHECK(timeline.sequence[0] == 5);
  REQUIRE(recording.labels.size() == recording.lanes.size());
  const run::LaneLabel& label = recording.labels[rows.lane[0].row()];
  CHECK(recording.text(label.process) == "DP rank [0]");
  CHECK(recording.text(label.thread) == "PP rank 1, pp-comm");
  CHECK_FALSE(recording.labels[rows.lane[2].row()].thread);
  CHECK(recording.rows.read == 6);
  CHECK(recording.rows.kept == 6);
}

TEST_CASE("timeline: figures by name, step and lane") {
  const run::Recording recording = read_lanes(kTimeline);
  const compare::TimelineFigures figures = compare::timeline_figures(recording);
  CHECK(figures.processes == 2);
  CHECK(figures.lanes == 2);
  CHECK(figures.lane_kinds ==
        std::map<std::string_view, std::int64_t>{{"misc", 1}, {"pp-comm", 1}});
  CHECK(figures.names.at("b").count == 2);
  CHECK(figures.names.at("b").time == 4000);
  REQUIRE(figures.steps.size() == 1);
  CHECK(figures.steps.at(7).last_end - figures.steps.at(7).first_start == 4000);
  CHECK(figures.last_end - figures.first_start == 6500);
  CHECK(figures.overlapping_pairs == 0);
}

TEST_CASE("timeline: neighbours overlap by more than the rounding of times") {
  const auto pairs = [](std::string_view second) {
    return compare::timeline_figures(
               read_lanes(fmt::format(
                   R"([{{"ph":"X","name":"a","pid":0,"tid":0,"ts":0,"dur":10}},{{"ph":"X","name":"a","pid":0,"tid":0,"ts":{},"dur":1}}])",
                   second)))
        .overlapping_pairs;
  };
  CHECK(pairs("10") == 0);
  CHECK(pairs("9.999") == 0);
  CHECK(pairs("9.998") == 1);
  CHECK(pairs("0") == 1);
}
