// Timelines of pipelines: two stages, a micro-batch after the other.
#include <array>
#include <map>
#include <string>
#include <catch2/catch.hpp>

#include "recordings.h"
#include "core/ir/validate.h"
#include "core/rebuild/rebuild.h"
#include "sim/engine/engine.h"
#include "sim/passes/registry.h"

namespace foregather::test {
namespace {

/// Writes events in the lanes of ranks; µs.
class TimelineWriter {
 public:
  void event(int stage, std::string_view lane, std::string_view name, Ns start, Ns end,
             std::int64_t step = 1) {
    const std::string label = fmt::format("PP rank {}, TP rank 0, {}", stage, lane);
    const auto [known, is_new] = lanes_.try_emplace(label);
    if (is_new) {
      known->second = w_.lane("0", label);
      w_.recording.labels.push_back({{}, w_.recording.strings.intern(label)});
    }
    w_.kernel(known->second, name, start, end);
    run::TimelineColumns& rows = w_.recording.timeline;
    rows.step.emplace_back(step);
    rows.micro_batch.emplace_back();
    rows.model_chunk.emplace_back();
    rows.sequence.emplace_back();
  }
  run::Recording& recording() { return w_.recording; }

 private:
  RecordingWriter w_;
  std::map<std::string, run::LaneRow> lanes_;
};

/// Stage 1 is slow in its first forward: what was recorded of step `step`, from `at`.
void add_step(TimelineWriter& w, std::int64_t step, Ns at, Ns slow) {
  const auto event = [&](int stage, std::string_view lane, std::string_view name, Ns start,
                         Ns end) { w.event(stage, lane, name, at + start, at + end, step); };
  event(0, "dp-comm", "params-all-gather", 0, 10);
  event(1, "dp-comm", "params-all-gather", 0, 10);
  event(0, "compute", "forward-compute", 30, 130);  // 20 µs late
  event(0, "pp-comm", "forward-send", 130, 134);
  event(1, "pp-comm", "forward-recv", 130, 136);
  event(0, "compute", "forward-compute", 130, 230);
  event(1, "compute", "forward-compute", 136, 236 + slow);
  // Stage 0 waits until stage 1 is there to receive.
  event(0, "pp-comm", "forward-send", 236 + slow, 240 + slow);
  event(1, "pp-comm", "forward-recv", 236 + slow, 242 + slow);
  event(1, "compute", "forward-compute", 242 + slow, 342 + slow);
  event(1, "dp-comm", "optimizer-clip-main-grad", 350 + slow, 360 + slow);
  event(0, "dp-comm", "optimizer-clip-main-grad", 350 + slow, 360 + slow);
}

TimelineWriter two_steps() {
  TimelineWriter w;
  add_step(w, 1, 1000, 50);
  add_step(w, 2, 2000, 150);
  w.recording().source = "t.json";
  return w;
}

rebuild::Rebuilt rebuilt_pipeline(const run::Recording& recording,
                                  std::optional<std::int64_t> step) {
  const run::Recording* const one = &recording;
  auto result = rebuild::rebuild({&one, 1}, {step});
  if (!result) FAIL(result.error().text());
  CHECK(validate(result->graph).empty());
  return std::move(*result);
}

std::vector<std::vector<Ns>> ends(const Graph& graph) {
  const sim::Simulation simulation = replayed_once(graph);
  std::vector<std::vector<Ns>> ends;
  for (const sim::ClassResult& result : simulation.classes) {
    ends.emplace_back();
    for (const sim::OpTime& op : result.steady.ops) ends.back().push_back(op.end / kMicrosecond);
  }
  return ends;
}

}  // namespace

TEST_CASE("a step of a pipeline's timeline is replayed with all of its ranks") {
  TimelineWriter w = two_steps();
  const auto step = rebuilt_pipeline(w.recording(), 2);
  REQUIRE(step.ranks.size() == 2);
  CHECK(step.is_one_recording);
  CHECK(step.warnings.empty());
  CHECK(step.ranks[0].measured == 510 * kMicrosecond);
  CHECK(step.ranks[0].matched == 4);
  CHECK(step.ranks[0].pinned == 0);
  CHECK(step.graph.world_size == 2);
  const auto times = ends(step.graph);
  CHECK(times[0] == std::vector<Ns>{10, 130, 134, 230, 390, 510});
  CHECK(times[1] == std::vector<Ns>{10, 136, 386, 392, 492, 510});
}

TEST_CASE("a pipeline's timeline without a number is its median step") {
  TimelineWriter w = two_steps();
  const auto step = rebuilt_pipeline(w.recording(), {});
  CHECK(step.ranks[0].measured == 410 * kMicrosecond);
  REQUIRE(step.warnings.size() == 1);
  CHECK(step.warnings[0].find("t.json: has 2 steps; step 1, ") == 0);
  const run::Recording* const one = &w.recording();
  const auto missing = rebuild::rebuild({&one, 1}, {3});
  REQUIRE(!missing);
  CHECK(missing.error().text() == "t.json: has no step 3, expected one of 1, 2");
}

TEST_CASE("a step of years in a pipeline's timeline is a damaged time") {
  TimelineWriter w = two_steps();
  w.recording().activities.end.back() += 365 * 24 * 3600 * kSecond;
  const run::Recording* const one = &w.recording();
  const auto refused = rebuild::rebuild({&one, 1}, {2});
  REQUIRE(!refused);
  CHECK(refused.error().text().find("expected at most 30 days") != std::string::npos);
  CHECK(rebuild::rebuild({&one, 1}, {1}));
}

TEST_CASE("an ideal step has the means and medians of all steps, and no delays") {
  TimelineWriter w = two_steps();
  const auto pass = sim::parse_pass("ideal");
  REQUIRE(pass);
  sim::PassTarget target{rebuilt_pipeline(w.recording(), 2).graph};
  const auto note = (*pass)(target);
  REQUIRE(note);
  CHECK(note->changed);
  // forward-compute: (4 × 100 + 2 × 100 + 150 + 250) / 8 = 125.
  const auto times = ends(target.graph);
  CHECK(times[0] == std::vector<Ns>{10, 135, 139, 260, 270, 407});
  CHECK(times[1] == std::vector<Ns>{10, 141, 266, 272, 397, 407});
}

TEST_CASE("a receive is posted behind what its rank computed before, but in an ideal step") {
  TimelineWriter w;
  for (const int stage : {0, 1}) w.event(stage, "dp-comm", "params-all-gather", 0, 10);
  w.event(1, "compute", "backward-compute", 10, 110);
  w.event(1, "pp-comm", "backward-send", 513, 517);
  w.event(0, "compute", "forward-compute", 10, 510);
  w.event(0, "pp-comm", "backward-recv", 513, 520);
  w.event(0, "compute", "backward-compute", 520, 620);
  w.recording().source = "t.json";
  Graph graph = rebuilt_pipeline(w.recording(), {}).graph;
  CHECK(replayed(graph) == std::vector<Ns>{10, 510, 520, 620});
  CHECK(replayed(graph, 10) == std::vector<Ns>{10, 60, 70, 80});
  const auto ideal = sim::parse_pass("ideal");
  REQUIRE(ideal);
  sim::PassTarget target{std::move(graph)};
  REQUIRE((*ideal)(target));
  CHECK(validate(target.graph).empty());
  CHECK(replayed(target.graph) == std::vector<Ns>{10, 510, 117, 610});
}

TEST_CASE("collectives of a timeline that not all ranks of a group have do not meet") {
  TimelineWriter w;
  add_step(w, 1, 1000, 0);
  w.event(0, "pp-comm", "forward-send", 1600, 1610);  // that nobody receives
  w.event(0, "pp-comm", "flush", 1620, 1630);         // of one rank
  w.recording().source = "t.json";
  const auto step = rebuilt_pipeline(w.recording(), {});
  CHECK(step.warnings ==
        std::vector<std::string>{
            "t.json: 5 collectives have no counterpart on the other ranks of their group"});
  const auto times = ends(step.graph);
  CHECK(times[0].back() == 630);
}

TEST_CASE("what a pipeline's timeline has outside its steps is left out, and said") {
  TimelineWriter w = two_steps();
  run::Recording& recording = w.recording();
  recording.timeline.step.front().reset();
  const auto step = rebuilt_pipeline(recording, 2);
  CHECK(step.warnings ==
        std::vector<std::string>{"t.json: 1 activities without a step or outside the lanes of a "
                                 "rank are left out"});
  for (auto& each : recording.timeline.step) each.reset();
  const run::Recording* const one = &recording;
  const auto none = rebuild::rebuild({&one, 1}, {});
  REQUIRE(!none);
  CHECK(none.error().text() == "t.json: has no activities of steps and ranks to replay");
}

TEST_CASE("a timeline of all ranks stands alone") {
  TimelineWriter w = two_steps();
  const std::array both{static_cast<const run::Recording*>(&w.recording()),
                        static_cast<const run::Recording*>(&w.recording())};
  const auto two = rebuild::rebuild(both, {});
  REQUIRE(!two);
  CHECK(two.error().text() == "t.json: is of all ranks of a job, expected it alone");
}

}  // namespace foregather::test
