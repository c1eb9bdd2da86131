#include "gui/models/segment_map.h"

#include <algorithm>
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
