// Several ranks: matched collectives, aligned clocks, and schedules in which ranks wait for each
// other.
#include <catch2/catch.hpp>

#include "recordings.h"
#include "core/compare/critical_path.h"
#include "core/ir/validate.h"
#include "core/rebuild/measured_run.h"
#include "core/rebuild/rebuild.h"
#include "sim/engine/engine.h"

namespace foregather::test {
namespace {

constexpr const char* kAllReduce = "ncclDevKernel_AllReduce_Sum_f32";

/// What one rank did between two of its collectives, and when a collective ended, on the job's
/// clock; µs.
struct Part {
  Ns arrival = 0, end = 0;
};

/// A rank that computes until each arrival, and whose clock is `ahead`.
RecordingWriter rank_of(std::uint32_t rank, Ns ahead, const std::vector<Part>& parts) {
  RecordingWriter w;
  const auto stream = w.lane("0", "7");
  w.recording.source = "rank" + std::to_string(rank) + ".json";
  w.recording.rank = rank;
  w.recording.world_size = 2;
  Ns from = 0;
  for (const Part& part : parts) {
    w.kernel(stream, "gemm", ahead + from, ahead + part.arrival);
    w.kernel(stream, kAllReduce, ahead + part.arrival, ahead + part.end);
    from = part.end;
  }
  return w;
}

std::vector<const run::Recording*> all(const std::vector<RecordingWriter>& ranks) {
  std::vector<const run::Recording*> recordings;
  for (const RecordingWriter& rank : ranks) recordings.push_back(&rank.recording);
  return recordings;
}

rebuild::Rebuilt rebuilt_ranks(const std::vector<RecordingWriter>& ranks) {
  auto result = rebuild::rebuild(all(ranks), {});
  if (!result) FAIL(result.error().text());
  CHECK(validate(result->graph).empty());
  return std::move(*result);
}

/// Starts, transfers and ends in microseconds, by class, by op.
struct Times {
  Ns start = 0, transfer = 0, end = 0;
  friend bool operator==(const Times&, const Times&) = default;
};
std::vector<std::vector<Times>> replayed_times(const Graph& graph) {
  const sim::Simulation simulation = replayed_once(graph);
  std::vector<std::vector<Times>> times;
  for (const sim::ClassResult& result : simulation.classes) {
    times.emplace_back();
    for (const sim::OpTime& op : result.steady.ops)
      times.back().push_back(
          {op.start / kMicrosecond, op.transfer / kMicrosecond, op.end / kMicrosecond});
  }
  return times;
}

/// Four all-reduces of 10 µs; each rank comes last twice. Rank 1 began 5 µs later.
std::vector<RecordingWriter> two_ranks(Ns ahead) {
  return {rank_of(0, 0, {{100, 140}, {200, 210}, {300, 340}, {400, 411}}),
          rank_of(1, ahead, {{130, 141}, {180, 210}, {330, 340}, {390, 410}})};
}

}  // namespace

TEST_CASE("a clock that drifts is corrected: 5 s ahead and 50 ppm fast, within 10 µs") {
  // 300 all-reduces in half a minute; ends differ by up to 3 µs, and one of 20 by 60 µs.
  const auto ranks_at = [](std::initializer_list<double> rates) {
    std::vector<RecordingWriter> ranks;
    for (const double rate : rates) {
      const auto rank = static_cast<std::uint32_t>(ranks.size());
      const auto own = [&](Ns time) {
        return static_cast<Ns>(static_cast<double>(time) * (1 + rate)) + Ns{5'000'000} * rank;
      };
      RecordingWriter w;
      const auto stream = w.lane("0", "7");
      w.recording.source = "rank" + std::to_string(rank) + ".json";
      w.recording.rank = rank;
      for (Ns i = 0; i < 300; ++i) {
        const Ns begin = i * 100'000, jitter = (i * (7 + rank)) % 4 + (i % 20 == rank ? 60 : 0);
        w.kernel(stream, "gemm", own(begin), own(begin + 40'000 + 500 * rank));
        w.kernel(stream, kAllReduce, own(begin + 50'000 + 500 * rank),
                 own(begin + 80'000 + jitter));
      }
      ranks.push_back(std::move(w));
    }
    return ranks;
  };
  const auto farthest = [](const run::Run& run, std::size_t ranks) {
    std::vector<std::vector<Ns>> ends(ranks);
    for (std::size_t i = 0; i < run.ops.size(); ++i)
      if (is_collective(run.ops.kind[i]))
        ends[run.steps[run.ops.step[i].row()].rank_class.row()].push_back(run.ops.end[i]);
    Ns most = 0;
    for (std::size_t i = 0; i < ends[0].size(); ++i)
      for (const auto& of : ends)
        if (i % 20 >= ranks) most = std::max(most, std::abs(of[i] - ends[0][i]));
    return most;
  };
  const auto ranks = ranks_at({0, 50e-6});
  const auto run = rebuild::measured_run(all(ranks), {});
  REQUIRE(run);
  CHECK(farthest(run->run, 2) < 10 * kMicrosecond);
  REQUIRE(run->warnings.size() == 1);
  CHECK(run->warnings.front().starts_with(
      "rank1.json: its clock runs 50.0 ppm faster than the first one's"));
  // Without the correction the ends are apart by what half a minute makes of 50 ppm.
  const auto steady = ranks_at({0, 0});
  const auto same = rebuild::measured_run(all(steady), {});
  REQUIRE(same);
  CHECK(farthest(same->run, 2) < 10 * kMicrosecond);
  CHECK(same->warnings.empty());
  // Through a recording between, and where the first one is the fast one.
  const auto three = ranks_at({80e-6, 0, -20e-6});
  const auto all_three = rebuild::measured_run(all(three), {});
  REQUIRE(all_three);
  CHECK(farthest(all_three->run, 3) < 10 * kMicrosecond);
  CHECK(all_three->warnings.size() == 2);
  const auto schedule = rebuild::rebuild(all(ranks), {});
  REQUIRE(schedule);
  CHECK(schedule->ranks[1].matched == 300);
  REQUIRE(schedule->ranks[1].clock);
  CHECK(schedule->ranks[1].clock->uncertainty < 10 * kMicrosecond);
}

TEST_CASE("clocks are aligned by the ends of collectives, and ranks wait for each other") {
  const auto step = rebuilt_ranks(two_ranks(5000));
  REQUIRE(step.ranks[1].clock);
  CHECK(step.ranks[0].clock->offset == 0);
  CHECK(step.ranks[1].clock->offset == 5000 * kMicrosecond);
  CHECK(step.ranks[1].clock->uncertainty == kMicrosecond);
  CHECK(step.ranks[1].matched == 4);
  CHECK(step.warnings.empty());
  CHECK(step.graph.communicators.size() == 1);
  const auto times = replayed_times(step.graph);
  CHECK(times[0][1] == Times{100, 130, 140});
  CHECK(times[1][1] == Times{130, 130, 141});
  CHECK(times[0][7] == Times{400, 400, 411});
  CHECK(times[1][7] == Times{390, 400, 410});
}

TEST_CASE("a kernel that begins before the one ahead of it ended leaves collectives matched") {
  auto ranks = two_ranks(0);
  run::ActivityColumns& rows = ranks[0].recording.activities;
  REQUIRE(rows.end[2] == rows.start[3]);
  rows.end[2] += 5 * kMicrosecond;  // a gemm, into its all-reduce
  const rebuild::Rebuilt step = rebuilt_ranks(ranks);
  CHECK(step.ranks[0].streams == 1);
  CHECK(step.ranks[0].matched == 4);
  CHECK(step.ranks[1].matched == 4);
}

TEST_CASE("a rank that starts late makes the others wait") {
  auto step = rebuilt_ranks(two_ranks(0));
  step.graph.classes[1].start_delay += 50 * kMicrosecond;
  const auto times = replayed_times(step.graph);
  CHECK(times[0][1] == Times{100, 180, 190});
  // Rank 0 computed for 60 µs before the second one, rank 1 for 39.
  CHECK(times[0][3] == Times{250, 250, 260});
  CHECK(times[1][3] == Times{230, 250, 260});
}

TEST_CASE("ranks that launch different collectives are not compared") {
  auto ranks = two_ranks(0);
  ranks[1].kernel(run::LaneRow(0), kAllReduce, 500, 510);
  const auto step = rebuilt_ranks(ranks);
  CHECK(!step.ranks[0].clock);
  CHECK(!step.ranks[1].clock);
  CHECK(step.ranks[1].matched == 0);
  REQUIRE(step.warnings.size() == 3);
  CHECK(step.warnings[0].find("rank0.json: shares fewer than 3 collectives") == 0);
  CHECK(step.warnings[2].find("group ?: 9 of 9 collectives") == 0);
  // Each as it was, on its own clock.
  const auto times = replayed_times(step.graph);
  CHECK(times[0][1] == Times{100, 100, 140});
  CHECK(times[1][1] == Times{130, 130, 141});
}

TEST_CASE("two collectives are too few to align clocks") {
  const auto step = rebuilt_ranks(
      {rank_of(0, 0, {{100, 140}, {200, 210}}), rank_of(1, 0, {{130, 140}, {180, 210}})});
  CHECK(!step.ranks[1].clock);
}

namespace {

/// Twice two_ranks(), each two of them a group; the clocks of the others are 7 and 9 ms ahead.
std::vector<RecordingWriter> two_groups() {
  std::vector<RecordingWriter> ranks = two_ranks(0);
  ranks.push_back(rank_of(2, 7000, {{100, 140}, {200, 210}, {300, 340}, {400, 411}}));
  ranks.push_back(rank_of(3, 9000, {{130, 141}, {180, 210}, {330, 340}, {390, 410}}));
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    ranks[r].recording.world_size = 4;
    for (std::size_t i = 1; i < ranks[r].recording.activities.size(); i += 2)
      ranks[r].describe(i, r < 2 ? "tp 0" : "tp 1", 2, static_cast<std::int64_t>(i), 1024);
  }
  return ranks;
}

}  // namespace

TEST_CASE("ranks that nothing ties to the first one meet among each other") {
  const auto step = rebuilt_ranks(two_groups());
  CHECK(step.ranks[1].clock);
  CHECK(!step.ranks[2].clock);  // nobody knows how it stands to the first one's
  CHECK(!step.ranks[3].clock);
  REQUIRE(step.warnings.size() == 2);
  CHECK(step.warnings[0].find("rank2.json: no recording ties it to the first one") == 0);
  for (const auto& rank : step.ranks) CHECK(rank.matched == 4);
  const auto times = replayed_times(step.graph);
  // As the first two, each from the begin of its own island.
  CHECK(times[2] == times[0]);
  CHECK(times[3] == times[1]);
  CHECK(times[3][1] == Times{130, 130, 141});
}

TEST_CASE("groups of ranks are tied to each other by a single collective") {
  std::vector<RecordingWriter> ranks = two_groups();
  // Ranks 0 and 2 reduce once more; rank 2 is there 60 µs later.
  constexpr std::size_t kLast = 8;
  ranks[0].kernel(run::LaneRow(0), kAllReduce, 420, 500);
  ranks[2].kernel(run::LaneRow(0), kAllReduce, 7480, 7500);
  for (const std::size_t r : {0, 2}) ranks[r].describe(kLast, "dp", 2, 1, 4096);
  const auto step = rebuilt_ranks(ranks);
  REQUIRE(step.ranks[2].clock);
  REQUIRE(step.ranks[3].clock);
  CHECK(step.ranks[2].clock->offset == 7000 * kMicrosecond);
  CHECK(step.ranks[3].clock->offset == 9000 * kMicrosecond);
  CHECK(step.ranks[0].matched == 5);
  REQUIRE(step.warnings.size() == 2);
  CHECK(step.warnings[0].find("rank2.json: is tied to the first one by fewer than 3") == 0);
  const auto times = replayed_times(step.graph);
  CHECK(times[0][kLast] == Times{420, 480, 500});
  CHECK(times[2][kLast] == Times{480, 480, 500});
}

TEST_CASE("sequence numbers match what two windows share") {
  // Rank 1's window begins one collective later.
  auto ranks = two_ranks(0);
  const auto number = [](RecordingWriter& w, std::int64_t first) {
    for (std::size_t i = 1; i < w.recording.activities.size(); i += 2)
      w.describe(i, "dp", 2, first++, 1024);
  };
  ranks[1] = rank_of(1, 0, {{180, 210}, {330, 340}, {390, 410}, {500, 600}});
  number(ranks[0], 7);
  number(ranks[1], 8);
  const auto step = rebuilt_ranks(ranks);
  REQUIRE(step.ranks[1].clock);
  CHECK(step.ranks[0].matched == 3);
  REQUIRE(step.warnings.size() == 1);
  CHECK(step.warnings[0].find("group dp: 2 of 8 collectives") == 0);
  const auto times = replayed_times(step.graph);
  CHECK(times[0][1] == Times{100, 100, 140});
  CHECK(times[0][3] == Times{200, 200, 210});
  CHECK(times[1][1] == Times{180, 200, 210});
  CHECK(times[1][7] == Times{500, 500, 600});
}

TEST_CASE("collectives that do not overlap are those of different groups") {
  const auto step =
      rebuilt_ranks({rank_of(0, 0, {{100, 110}, {200, 210}, {300, 310}, {400, 410}}),
                     rank_of(1, 0, {{125, 130}, {175, 180}, {325, 330}, {370, 375}})});
  CHECK(!step.ranks[0].clock);
  CHECK(!step.ranks[1].clock);
}

TEST_CASE("what recorded ranks waited for absent ones is told from like collectives") {
  auto ranks = two_ranks(0);
  for (RecordingWriter& rank : ranks) rank.recording.world_size = 4;
  // All there at 430 and 440, and it takes until 540.
  ranks[0].kernel(run::LaneRow(0), kAllReduce, 430, 540);
  ranks[1].kernel(run::LaneRow(0), kAllReduce, 440, 540);
  auto step = rebuilt_ranks(ranks);
  REQUIRE(step.warnings.size() == 1);
  CHECK(step.warnings[0].find("group ?: 2 of its 4 ranks were not recorded; 1 of 5") == 0);
  const auto times = replayed_times(step.graph);
  CHECK(times[0][8] == Times{430, 530, 540});
  CHECK(times[1][8] == Times{440, 530, 540});
}

TEST_CASE("a measured run splits the wait from the transfer") {
  const auto ranks = two_ranks(5000);
  const auto measured = rebuild::measured_run(all(ranks), {});
  REQUIRE(measured);
  REQUIRE(measured->clocks[1].clock);
  const run::Run& run = measured->run;
  CHECK(run.ops.start[1] == 100 * kMicrosecond);
  CHECK(run.ops.transfer[1] == 130 * kMicrosecond);
  CHECK(run.ops.end[1] == 140 * kMicrosecond);
  CHECK(run.ops.start[9] == 130 * kMicrosecond);
  CHECK(run.ops.transfer[9] == 130 * kMicrosecond);
  CHECK(run.ops.end[9] == 141 * kMicrosecond);
  // Whoever waited is bound by the part of the rank that came last.
  CHECK(run.ops.reason[1] == run::BoundReason::rendezvous);
  CHECK(run.ops.bound_by[1] == run::OpRow(9));
  CHECK(run.ops.reason[9] != run::BoundReason::rendezvous);
}

TEST_CASE("the critical path of a measured rank counts transfers, not waits") {
  auto ranks = two_ranks(0);
  const auto path = [&](std::uint32_t rank) {
    const auto measured = rebuild::measured_run(all(ranks), {});
    REQUIRE(measured);
    return compare::critical_path(measured->run, run::StepRow(rank));
  };
  // Rank 0 waits 30 µs twice, for kernels of rank 1 that are on its path instead.
  CHECK(path(0).comm == (10 + 10 + 10 + 11) * kMicrosecond);
  CHECK(path(0).other == 0);
  // Nobody recorded who came 90 µs later than rank 1.
  for (RecordingWriter& rank : ranks) rank.recording.world_size = 4;
  ranks[0].kernel(run::LaneRow(0), kAllReduce, 430, 540);
  ranks[1].kernel(run::LaneRow(0), kAllReduce, 440, 540);
  CHECK(path(1).comm == (10 + 10 + 10 + 10 + 10) * kMicrosecond);
  CHECK(path(1).other == (30 + 90) * kMicrosecond);
}

}  // namespace foregather::test
