#include "gui/models/segment_map.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>

#include "tests/unit/gui/opened.h"

using namespace foregather;
using namespace foregather::gui;
using run::SegmentChange;

namespace {

/// Segments 1000…1400 (allocated at 10, released at 80) and 9000…9200 (held, half of it unmapped at
/// 50) with blocks in them.
run::Run two_segments() {
  run::Run run;
  const auto rank = run.add(run::ClassInfo{run.text("all"), {0}});
  const auto stream = run.add(run::StreamInfo{rank, run.text("stream 7"), 0});
  run::StepInfo info;
  info.rank_class = rank;
  info.end = info.host_end = 100;
  const auto step = run.add(info);
  const auto segment = [&](SegmentChange change, Ns time, std::uint64_t address, Bytes bytes) {
    run::SegmentRecord row;
    row.step = step;
    row.stream = stream;
    row.change = change;
    row.time = time;
    row.address = address;
    row.bytes = bytes;
    run.add(row);
  };
  segment(SegmentChange::held, 0, 9000, 200);
  segment(SegmentChange::allocated, 10, 1000, 400);
  segment(SegmentChange::unmapped, 50, 9100, 100);
  segment(SegmentChange::released, 80, 1000, 400);
  const auto block = [&](std::uint64_t address, Bytes bytes, Ns from, Ns to) {
    run::BindingRecord row;
    row.step = step;
    row.name = run.text("weight");
    row.address = address;
    row.bytes = bytes - 1;
    row.block_bytes = bytes;
    row.allocated = from;
    row.freed = to;
    run.add(row);
  };
  block(9000, 50, 0, 100);
  block(1000, 256, 20, 40);
  block(1000, 128, 40, 60);
  block(5000, 128, 40, 60);  // nowhere that was held
  return run;
}

SegmentMap map_of(const Session& session) { return {session, 0, *session.pairs()[0].sides[0]}; }

}  // namespace

TEST_CASE("segments: what was never held takes no room, bands lie end to end") {
  const Session session = test::opened({two_segments()});
  const SegmentMap map = map_of(session);
  REQUIRE(map.bands().size() == 2);
  CHECK(map.bands()[0].address == 1000);
  CHECK(map.bands()[0].bytes == 400);
  CHECK(map.bands()[0].name == "stream 7");
  CHECK(map.bands()[1].at >= 400);
  CHECK(map.height() < 620);
}

TEST_CASE("segments: memory is held from when it came until it went, in part, too") {
  const Session session = test::opened({two_segments()});
  const SegmentMap map = map_of(session);
  std::vector<std::array<std::int64_t, 4>> held;
  for (const SegmentMap::Held& each : map.held())
    held.push_back({each.at, each.bytes, each.time.begin, each.time.end});
  std::sort(held.begin(), held.end());
  const Bytes upper = map.bands()[1].at;
  CHECK(held == std::vector<std::array<std::int64_t, 4>>{
                    {0, 400, 10, 80}, {upper, 100, 0, 100}, {upper + 100, 100, 0, 50}});
}

TEST_CASE(
    "segments: what is there at the end of a step stays until the next one or the device's end") {
  run::Run run = two_segments();
  run.steps[0].end = 150;  // the host is done at 100
  run.bindings[0].still_bound = true;
  const auto ends = [](run::Run of) {
    const Session session = test::opened({std::move(of)});
    const SegmentMap map = map_of(session);
    const auto at_upper = [&](const auto& each) {
      return each.at == map.bands()[1].at && each.time.begin == session.on_axis(0, 0);
    };
    const auto held = std::find_if(map.held().begin(), map.held().end(), at_upper);
    const auto block = std::find_if(map.blocks().begin(), map.blocks().end(), at_upper);
    REQUIRE(held != map.held().end());
    REQUIRE(block != map.blocks().end());
    return std::array{session.of_run(0, held->time.end), session.of_run(0, block->time.end),
                      session.of_run(0, map.extent().end)};
  };
  CHECK(ends(run) == std::array<Ns, 3>{150, 150, 150});

  run::StepInfo next = run.steps[0];
  next.number = 1;
  next.begin = 150;
  next.end = next.host_end = 300;
  run::SegmentRecord held = run.segments[0];
  held.step = run.add(next);
  held.time = 120;
  run.add(held);
  CHECK(ends(run) == std::array<Ns, 3>{120, 120, 300});
  run.steps[1].number = 5;  // those between were not kept
  run.segments.back().time = 200;
  CHECK(ends(run) == std::array<Ns, 3>{150, 150, 300});
}

TEST_CASE("segments: the allocation at a time and a height") {
  const Session session = test::opened({two_segments()});
  const SegmentMap map = map_of(session);
  REQUIRE(map.blocks().size() == 3);
  const auto binding = [&](Ns time, Bytes height) -> std::optional<std::uint32_t> {
    const auto block = map.block_at(time, height);
    if (!block) return std::nullopt;
    return map.blocks()[*block].binding;
  };
  CHECK(binding(30, 200) == 1U);
  CHECK(binding(40, 100) == 2U);
  CHECK(binding(30, map.bands()[1].at) == 0U);
  CHECK_FALSE(binding(45, 200));
  CHECK_FALSE(binding(70, 10));
  const auto rows = map.details(session, *map.block_at(30, 200));
  CHECK(rows[0] == std::pair<std::string, std::string>("name", "weight"));
  CHECK(std::count(rows.begin(), rows.end(),
                   std::pair<std::string, std::string>("lived", "20 ns")) == 1);
}

TEST_CASE("segments: blocks of a prediction lie in what it held, and none over another") {
  const Session session = test::opened({test::simulated_tiny({})});
  const SegmentMap map = map_of(session);
  REQUIRE(map.blocks().size() > 100);
  REQUIRE_FALSE(map.held().empty());
  for (std::size_t a = 0; a < map.blocks().size(); ++a) {
    const SegmentMap::Block& block = map.blocks()[a];
    CHECK(block.at + block.bytes <= map.height());
    for (std::size_t b = a + 1;
         b < map.blocks().size() && map.blocks()[b].at < block.at + block.bytes; ++b) {
      const TimeRange other = map.blocks()[b].time;
      const bool apart = other.begin >= block.time.end || block.time.begin >= other.end;
      CHECK(apart);
    }
  }
}

TEST_CASE("segments: a run that says where blocks lie, and not in what, has bands of blocks") {
  run::Run run = two_segments();
  run.segments.clear();
  const Session session = test::opened({run});
  const SegmentMap map = map_of(session);
  REQUIRE(map.bands().size() == 3);
  CHECK(map.bands()[0].address == 1000);
  CHECK(map.bands()[0].bytes == 256);  // of the larger of two
  CHECK(map.bands()[1].address == 5000);
  CHECK(map.bands()[2].address == 9000);
  CHECK(map.bands()[2].bytes == 50);
  CHECK(map.blocks().size() == 4);
}

TEST_CASE("segments: what goes from the middle of a segment leaves both ends held") {
  run::Run run = two_segments();
  run::SegmentRecord middle = run.segments[1];
  middle.change = SegmentChange::unmapped;
  middle.time = 30;
  middle.address = 1100;
  middle.bytes = 200;
  run.segments.insert(run.segments.begin() + 2, middle);
  const Session session = test::opened({run});
  const SegmentMap map = map_of(session);
  std::vector<std::array<std::int64_t, 4>> held;
  for (const SegmentMap::Held& each : map.held())
    if (each.at < map.bands()[1].at)
      held.push_back({each.at, each.bytes, each.time.begin, each.time.end});
  std::sort(held.begin(), held.end());
  CHECK(held == std::vector<std::array<std::int64_t, 4>>{
                    {0, 100, 10, 80}, {100, 200, 10, 30}, {300, 100, 10, 80}});
}
