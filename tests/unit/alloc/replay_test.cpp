// Recordings of random programs replay exactly, whole and cut at any event.
#include <catch2/catch.hpp>

#include "core/alloc/replay.h"
#include "core/alloc/what_if.h"
#include "tests/unit/alloc/random_recording.h"

namespace foregather::alloc::test {
namespace {

void require_exact(const Recording& recording, const RandomProgram& program, std::size_t dropped) {
  const auto result = replay(recording);
  CAPTURE(program.conf, program.seed, program.capacity, dropped, recording.events.size());
  if (!result) FAIL(result.error().message);
  if (result->first_divergence) {
    const auto row = result->first_divergence->event;
    CAPTURE(row, result->first_divergence->reason);
    CHECK(false);
    return;
  }
  REQUIRE(result->exact_addresses == result->allocs);
  REQUIRE(result->segments_exact == result->segments_recorded);
  REQUIRE(result->segments_exact == result->segments_replayed);
  REQUIRE(result->blocks_different == 0);
  REQUIRE(result->largest_reserved_error == 0);
  REQUIRE(result->unmatched_frees == 0);
}

void check_replays(RandomProgram program, int programs) {
  for (int i = 0; i < programs; ++i) {
    program.seed = static_cast<std::uint32_t>(i + 1);
    const RandomRecording random = record(program);
    require_exact(random.recording, program, 0);
    const std::size_t events = random.recording.events.size();
    for (std::size_t dropped = 1; dropped < events; dropped += 1 + events / 97)
      require_exact(cut(random.recording, dropped), program, dropped);
  }
}

constexpr Bytes kAmple = 16 * GiB;

}  // namespace

TEST_CASE("recordings replay exactly, cut at any event") {
  check_replays({.conf = "", .capacity = kAmple, .streams = 1}, 12);
}

TEST_CASE("recordings of several streams replay exactly") {
  check_replays({.conf = "", .capacity = kAmple, .streams = 3}, 12);
}

TEST_CASE("recordings that run out of memory replay exactly") {
  check_replays({.conf = "", .capacity = 600 * MiB, .streams = 2}, 12);
}

TEST_CASE("recordings without stacks replay exactly") {
  check_replays({.conf = "", .capacity = 600 * MiB, .streams = 2, .names_empty_cache = false}, 12);
}

TEST_CASE("recordings of expandable segments replay exactly") {
  check_replays({.conf = "expandable_segments:True", .capacity = kAmple, .streams = 2}, 12);
}

TEST_CASE("recordings of expandable segments that run out of memory replay exactly") {
  check_replays({.conf = "expandable_segments:True", .capacity = 600 * MiB, .streams = 2}, 12);
}

TEST_CASE("recordings with rounded sizes replay exactly") {
  check_replays({.conf = "roundup_power2_divisions:8", .capacity = 900 * MiB, .streams = 2}, 8);
}

TEST_CASE("recordings of deferred frees replay exactly") {
  check_replays({.conf = "", .capacity = kAmple, .streams = 3, .defers = true}, 12);
}

// Running out of memory waits for the streams: their blocks are completed in the malloc.
TEST_CASE("recordings of deferred frees that run out of memory replay exactly") {
  RandomProgram program{.conf = "", .capacity = 600 * MiB, .streams = 3, .defers = true};
  check_replays(program, 24);
  program.conf = "expandable_segments:True";
  check_replays(program, 24);
  program.names_empty_cache = false;
  check_replays(program, 12);
}

TEST_CASE("a replay tries again as often as the program did") {
  RandomProgram program{.conf = "", .capacity = 600 * MiB, .streams = 3, .defers = true};
  std::int64_t retries = 0;
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    program.seed = seed;
    const RandomRecording random = record(program);
    const auto replayed = replay(random.recording);
    if (!replayed) FAIL(replayed.error().message);
    CAPTURE(seed);
    CHECK(replayed->retries == random.retries);
    CHECK(std::ssize(replayed->empty_caches) <= random.empty_caches);
    retries += random.retries;
  }
  CHECK(retries > 100);
}

// 40 MiB wait for a stream, 20 MiB are cached, and 30 MiB more do not fit into 100 MiB.
TEST_CASE("a block that a malloc waited for serves the next one if the device is larger") {
  constexpr Bytes kA = 1 * GiB, kB = 2 * GiB, kC = 3 * GiB, kD = 4 * GiB;
  const auto event = [](Address address, Bytes size, RecordedAction action) {
    return RecordedEvent{address, size, StreamId(0), action, false};
  };
  Recording recording;
  recording.streams = {0};
  using enum RecordedAction;
  recording.events = {event(kA, 40 * MiB, segment_alloc),  event(kA, 40 * MiB, alloc),
                      event(kB, 20 * MiB, segment_alloc),  event(kB, 20 * MiB, alloc),
                      event(kC, 30 * MiB, segment_alloc),  event(kC, 30 * MiB, alloc),
                      event(kA, 40 * MiB, free_requested), event(kB, 20 * MiB, free_requested),
                      event(kB, 20 * MiB, free_completed), event(kA, 40 * MiB, free_completed),
                      event(kB, 20 * MiB, segment_free),   event(kA, 40 * MiB, segment_free),
                      event(kD, 30 * MiB, segment_alloc),  event(kD, 30 * MiB, alloc)};
  SegmentLayout segment;
  segment.kind = PoolKind::large;
  segment.stream = StreamId(0);
  segment.size = 30 * MiB;
  for (const Address address : {kC, kD}) {
    segment.address = address;
    segment.blocks = {{BlockState::allocated, address, 30 * MiB, 30 * MiB, {}, {}}};
    recording.at_end.push_back(segment);
  }
  const auto replayed = replay(recording);
  if (!replayed) FAIL(replayed.error().message);
  if (replayed->first_divergence) FAIL(replayed->first_divergence->reason);
  CHECK(replayed->retries == 1);
  CHECK(replayed->empty_caches.empty());
  REQUIRE(replayed->waiting_mallocs.size() == 1);
  for (const WhatIfStart start : {WhatIfStart::recorded, WhatIfStart::cold}) {
    const auto figures = what_if(recording, *replayed, WhatIf{recording.config, start, {}});
    if (!figures) FAIL(figures.error().message);
    CHECK(figures->peak.reserved == 120 * MiB);
    CHECK(figures->retries == 0);
  }
}

}  // namespace foregather::alloc::test
