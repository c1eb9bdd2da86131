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

}  // namespace foregather::alloc::test
