// The state at the start of a window, by hand.
#include <catch2/catch.hpp>

#include "core/alloc/replay.h"
#include "core/alloc/rewind.h"

namespace foregather::alloc::test {
namespace {

constexpr Address kArena = Address{1} << 40;
constexpr StreamId kOnlyStream{std::size_t{0}};
constexpr BlockState kAllocated = BlockState::allocated;
constexpr BlockState kFree = BlockState::free;

RecordedEvent event_at(RecordedAction action, Address offset, Bytes size) {
  return {kArena + offset, size, kOnlyStream, action, false};
}
RecordedEvent alloc_of(Address offset, Bytes size) {
  return event_at(RecordedAction::alloc, offset, size);
}

/// One large segment at the end, cut into blocks {state, size, requested}.
struct Piece {
  BlockState state;
  Bytes size;
  Bytes requested = 0;
};
SegmentLayout segment(Address offset, const std::vector<Piece>& pieces, bool expandable = false) {
  SegmentLayout out;
  out.address = kArena + offset;
  out.stream = kOnlyStream;
  out.expandable = expandable;
  for (const Piece& piece : pieces) {
    out.blocks.push_back(
        {piece.state, out.address + out.size, piece.size, piece.requested, {}, {}});
    out.size += piece.size;
  }
  return out;
}

Recording window(std::vector<RecordedEvent> events, Layout at_end) {
  Recording recording;
  recording.events = std::move(events);
  recording.at_end = std::move(at_end);
  recording.streams = {0};
  return recording;
}

void free_of(std::vector<RecordedEvent>& events, Address offset, Bytes size) {
  events.push_back(event_at(RecordedAction::free_requested, offset, size));
  events.push_back(event_at(RecordedAction::free_completed, offset, size));
}

std::vector<Bytes> sizes(const SegmentLayout& segment) {
  std::vector<Bytes> out;
  for (const BlockLayout& block : segment.blocks) out.push_back(block.size);
  return out;
}

std::string replay_error(const Recording& recording) {
  const auto start = rewind(recording);
  REQUIRE_FALSE(start);
  return start.error().message;
}

}  // namespace

TEST_CASE("a window without events starts as it ends") {
  const auto start =
      rewind(window({}, {segment(0, {{kAllocated, 12 * MiB, 11 * MiB}, {kFree, 8 * MiB}})}));
  REQUIRE(start);
  REQUIRE(start->layout.size() == 1);
  CHECK(sizes(start->layout[0]) == std::vector<Bytes>{12 * MiB, 8 * MiB});
  CHECK(start->ambiguous.empty());
}

TEST_CASE("an undone alloc takes back what was split off") {
  const auto start = rewind(window(
      {alloc_of(0, 3 * MiB)}, {segment(0, {{kAllocated, 3 * MiB, 3 * MiB}, {kFree, 17 * MiB}})}));
  REQUIRE(start);
  CHECK(sizes(start->layout[0]) == std::vector<Bytes>{20 * MiB});
  CHECK(start->layout[0].blocks[0].state == kFree);
}

TEST_CASE("up to 1 MiB behind a freed block was part of it") {
  std::vector<RecordedEvent> events;
  free_of(events, 0, 11 * MiB);
  const auto start = rewind(window(events, {segment(0, {{kFree, 12 * MiB}})}));
  REQUIRE(start);
  CHECK(sizes(start->layout[0]) == std::vector<Bytes>{12 * MiB});
  CHECK(start->layout[0].blocks[0].requested == 11 * MiB);
}

TEST_CASE("more than 1 MiB behind a freed block was free, and maybe part of it") {
  std::vector<RecordedEvent> events;
  free_of(events, 0, 11 * MiB);
  auto start = rewind(window(events, {segment(0, {{kFree, 12 * MiB + 512 + 4096}})}));
  REQUIRE(start);
  CHECK(sizes(start->layout[0]) == std::vector<Bytes>{11 * MiB, 1 * MiB + 512 + 4096});
  REQUIRE(start->ambiguous.size() == 1);
  CHECK(start->upper_slack() == 4096);
  start->give_slack(start->ambiguous[0], 1024);
  CHECK(sizes(start->layout[0]) == std::vector<Bytes>{11 * MiB + 1024, 1 * MiB + 512 + 3072});
  CHECK(start->upper_slack() == 3072);
}

TEST_CASE("a later address shows what an earlier free could not") {
  // The first block is freed when 5 MiB behind it are free; the second, handed out 512 KiB behind
  // its rounded end, shows where it ended.
  std::vector<RecordedEvent> events;
  free_of(events, 3 * MiB + 512 * KiB, 3 * MiB);
  free_of(events, 0, 3 * MiB);
  const auto start = rewind(window(events, {segment(0, {{kFree, 20 * MiB}})}));
  REQUIRE(start);
  CHECK(sizes(start->layout[0]) ==
        std::vector<Bytes>{3 * MiB + 512 * KiB, 3 * MiB, 13 * MiB + 512 * KiB});
}

TEST_CASE("released segments come back, new ones vanish") {
  std::vector<RecordedEvent> events{event_at(RecordedAction::segment_free, 0, 20 * MiB),
                                    event_at(RecordedAction::segment_free, 64 * MiB, 2 * MiB),
                                    event_at(RecordedAction::segment_alloc, 128 * MiB, 20 * MiB),
                                    alloc_of(128 * MiB, 20 * MiB)};
  const auto start =
      rewind(window(events, {segment(128 * MiB, {{kAllocated, 20 * MiB, 20 * MiB}})}));
  REQUIRE(start);
  REQUIRE(start->layout.size() == 2);
  CHECK(start->layout[0].kind == PoolKind::large);
  CHECK(start->layout[1].kind == PoolKind::small);
}

TEST_CASE("mapped ranges become one arena with holes and an end") {
  std::vector<RecordedEvent> events{event_at(RecordedAction::segment_unmap, 20 * MiB, 20 * MiB)};
  Layout at_end{segment(0, {{kAllocated, 20 * MiB, 20 * MiB}}, true),
                segment(60 * MiB, {{kAllocated, 20 * MiB, 20 * MiB}}, true)};
  const auto start = rewind(window(events, at_end));
  REQUIRE(start);
  REQUIRE(start->layout.size() == 1);
  const std::vector<BlockLayout>& blocks = start->layout[0].blocks;
  REQUIRE(blocks.size() == 5);
  CHECK(blocks[1].state == kFree);
  CHECK(blocks[1].size == 20 * MiB);
  CHECK(blocks[2].state == BlockState::unmapped);
  CHECK(blocks[2].size == 20 * MiB);
  CHECK(blocks[4].state == BlockState::unmapped);
}

TEST_CASE("the base of an arena may be mapped only later") {
  std::vector<RecordedEvent> events{event_at(RecordedAction::segment_map, 0, 20 * MiB),
                                    alloc_of(0, 20 * MiB)};
  Layout at_end{segment(0, {{kAllocated, 20 * MiB, 20 * MiB}}, true),
                segment(40 * MiB, {{kAllocated, 20 * MiB, 20 * MiB}}, true)};
  const auto start = rewind(window(events, at_end));
  REQUIRE(start);
  REQUIRE(start->layout.size() == 1);
  CHECK(start->layout[0].address == kArena);
  CHECK(start->layout[0].blocks[0].state == BlockState::unmapped);
  CHECK(start->layout[0].blocks[0].size == 40 * MiB);
}

TEST_CASE("events that cannot lead to the state at the end are left out and named") {
  const Layout free_segment{segment(0, {{kFree, 20 * MiB}})};
  const Layout used_segment{segment(0, {{kAllocated, 20 * MiB, 20 * MiB}})};
  const auto reason = [](RecordedEvent wrong, const Layout& at_end) {
    const auto start = rewind(window({wrong}, at_end));
    REQUIRE(start);
    REQUIRE(start->contradiction);
    CHECK(start->layout == at_end);
    const auto replayed = replay(window({wrong}, at_end));
    REQUIRE(replayed);
    REQUIRE(replayed->first_divergence);
    CHECK(replayed->first_divergence->event == 0);
    return start->contradiction->reason;
  };
  const auto contains = [](const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
  };
  using enum RecordedAction;
  CHECK(reason(alloc_of(0, 20 * MiB), free_segment) ==
        "alloc of 20971520 bytes at 0x10000000000: no allocated block is there afterwards, "
        "expected one");
  CHECK(
      contains(reason(event_at(free_completed, 0, MiB), used_segment), "no free memory is there"));
  CHECK(contains(reason(event_at(free_completed, 0, 30 * MiB), free_segment), "room for it"));
  CHECK(contains(reason(event_at(free_requested, 0, MiB), free_segment), "no block waits"));
  CHECK(contains(reason(event_at(segment_alloc, 0, 2 * MiB), free_segment), "no free segment"));
  CHECK(contains(reason(event_at(segment_free, 0, 2 * MiB), free_segment), "memory is there"));
  CHECK(contains(reason(event_at(segment_map, 0, 2 * MiB), free_segment), "no free mapped memory"));
  CHECK(contains(reason(event_at(segment_unmap, 0, 2 * MiB), free_segment),
                 "mapped memory is there"));
  CHECK(contains(reason(alloc_of(-kArena - 5, 1), {}), "out of range"));
  CHECK(contains(reason(alloc_of(0, Bytes{1} << 62), {}), "out of range"));
}

TEST_CASE("segments that cannot be are refused") {
  Layout gap{segment(0, {{kAllocated, 20 * MiB, 20 * MiB}})};
  gap[0].blocks[0].address += 512;
  CHECK(replay_error(window({}, gap)).find("do not fill it") != std::string::npos);
  Layout twice{segment(0, {{kFree, 20 * MiB}}), segment(10 * MiB, {{kFree, 20 * MiB}})};
  CHECK(replay_error(window({}, twice)).find("overlaps") != std::string::npos);
  Layout odd{segment(0, {{kFree, 100}})};
  CHECK(replay_error(window({}, odd)).find("do not fill it") != std::string::npos);
  Layout far{segment((Address{1} << 52), {{kFree, 20 * MiB}})};
  CHECK(replay_error(window({}, far)).find("expected the address and size of a device") !=
        std::string::npos);
}

TEST_CASE("the first difference is reported with its event and reason") {
  // Best fit would take the first segment.
  Layout at_end{segment(0, {{kFree, 20 * MiB}}),
                segment(64 * MiB, {{kAllocated, 24 * MiB, 24 * MiB}}),
                segment(128 * MiB, {{kAllocated, 20 * MiB, 20 * MiB}})};
  const auto result =
      replay(window({alloc_of(64 * MiB, 24 * MiB), alloc_of(128 * MiB, 20 * MiB)}, at_end));
  REQUIRE(result);
  CHECK_FALSE(result->exact());
  REQUIRE(result->first_divergence);
  CHECK(result->first_divergence->event == 1);
  CHECK(result->first_divergence->reason ==
        "the replay places 20971520 bytes at 0x10000000000, recorded is 0x10008000000");
  CHECK(result->exact_addresses == 1);
  CHECK(result->allocs == 2);
  CHECK(result->blocks_different == 4);
}

}  // namespace foregather::alloc::test
