// Other configurations and other devices, by hand.
#include <catch2/catch.hpp>

#include "core/alloc/what_if.h"
#include "tests/unit/alloc/random_recording.h"

namespace foregather::alloc::test {
namespace {

constexpr Address kBase = Address{1} << 44;
constexpr StreamId kHeldStream{std::size_t{0}};

RecordedEvent event(RecordedAction action, Address offset, Bytes size) {
  return {action == RecordedAction::oom ? offset : kBase + offset, size, kHeldStream, action,
          false};
}

/// 30 MiB live from before; then 50 MiB come and go, and 100 MiB are refused with 60 MiB free.
Recording refused() {
  Recording recording;
  recording.streams = {0};
  recording.events = {event(RecordedAction::segment_alloc, 64 * MiB, 50 * MiB),
                      event(RecordedAction::alloc, 64 * MiB, 50 * MiB),
                      event(RecordedAction::free_requested, 64 * MiB, 50 * MiB),
                      event(RecordedAction::free_completed, 64 * MiB, 50 * MiB),
                      event(RecordedAction::segment_free, 64 * MiB, 50 * MiB),
                      event(RecordedAction::oom, 60 * MiB, 100 * MiB)};
  SegmentLayout held;
  held.address = kBase;
  held.size = 30 * MiB;
  held.stream = kHeldStream;
  held.blocks = {{BlockState::allocated, kBase, 30 * MiB, 30 * MiB, {}, {}}};
  recording.at_end = {held};
  return recording;
}

WhatIfFigures figures(const WhatIf& question, const Recording& recording = refused()) {
  const auto replayed = replay(recording);
  REQUIRE(replayed);
  const auto result = what_if(recording, *replayed, question);
  REQUIRE(result);
  return *result;
}

}  // namespace

TEST_CASE("a recording that ran out of memory tells the capacity") {
  const auto replayed = replay(refused());
  REQUIRE(replayed);
  CHECK(replayed->exact());
  CHECK(replayed->ooms == 1);
  CHECK(replayed->retries == 1);
  CHECK(replayed->capacity == 90 * MiB);
}

TEST_CASE("the recorded capacity predicts the recorded failure") {
  const WhatIfFigures result = figures({{}, WhatIfStart::recorded, 90 * MiB});
  CHECK(result.ooms == 1);
  CHECK(result.recorded_ooms == 1);
  CHECK(result.retries == 1);
  CHECK(result.first_oom == 5);
  CHECK(result.peak.reserved == 80 * MiB);
  CHECK(result.at_end.reserved == 30 * MiB);
}

TEST_CASE("a larger device serves the request and gets it back") {
  const WhatIfFigures result = figures({{}, WhatIfStart::recorded, 200 * MiB});
  CHECK(result.ooms == 0);
  CHECK(result.peak.reserved == 180 * MiB);
  CHECK(result.at_end.allocated == 30 * MiB);
}

TEST_CASE("without a limit a refused request is left out") {
  const WhatIfFigures result = figures({{}, WhatIfStart::recorded, std::nullopt});
  CHECK(result.ooms == 0);
  CHECK(result.recorded_ooms == 1);
  CHECK(result.peak.reserved == 80 * MiB);
}

TEST_CASE("a smaller device fails where the program did not") {
  const WhatIfFigures result = figures({{}, WhatIfStart::recorded, 70 * MiB});
  CHECK(result.ooms == 2);
  CHECK(result.first_oom == 1);
  CHECK(result.peak.reserved == 30 * MiB);
}

TEST_CASE("a cold start allocates what was alive first") {
  const WhatIfFigures result = figures({{}, WhatIfStart::cold, std::nullopt});
  CHECK(result.segment_events == 2);
  CHECK(result.peak.reserved == 80 * MiB);
  AllocConfig expandable;
  expandable.expandable_segments = true;
  const WhatIfFigures mapped = figures({expandable, WhatIfStart::cold, std::nullopt});
  CHECK(mapped.segment_events == 2);
  CHECK(mapped.peak.reserved == 80 * MiB);  // 40 MiB mapped for 30, then 40 more for 50
  CHECK(mapped.address_digest != result.address_digest);
}

TEST_CASE("fragmentation is the part of the reserved peak that no block used") {
  WhatIfFigures result;
  CHECK(result.fragmentation() == 0);
  result.peak.reserved = 100;
  result.peak.active = 75;
  CHECK(result.fragmentation() == 0.25);
}

TEST_CASE("the recorded configuration at the recorded capacity repeats the recording") {
  for (const char* conf : {"", "expandable_segments:True"})
    for (std::uint32_t seed = 1; seed <= 6; ++seed) {
      const RandomRecording random =
          record({.conf = conf, .capacity = 600 * MiB, .streams = 2, .seed = seed});
      const auto replayed = replay(random.recording);
      REQUIRE(replayed);
      const WhatIfFigures result =
          figures({random.recording.config, WhatIfStart::recorded, 600 * MiB}, random.recording);
      CAPTURE(conf, seed);
      CHECK(result.ooms == replayed->ooms);
      CHECK(result.peak.allocated == replayed->peak.allocated);
    }
}

TEST_CASE("addresses that leave no room above them are refused, but for a cold start") {
  Recording recording = refused();
  recording.at_end[0].address += Address{1} << 50;
  recording.at_end[0].blocks[0].address += Address{1} << 50;
  const auto replayed = replay(recording);
  REQUIRE(replayed);
  const auto result = what_if(recording, *replayed, {{}, WhatIfStart::recorded, {}});
  REQUIRE_FALSE(result);
  CHECK(result.error().message ==
        "the recorded addresses reach 0x4100001e00000, expected less than 0x4000000000000");
  CHECK(what_if(recording, *replayed, {{}, WhatIfStart::cold, {}}));
}

TEST_CASE("segments that come and go with each step do not use up addresses") {
  Recording recording;
  recording.streams = {0};
  for (int step = 0; step < 1000; ++step)
    for (const RecordedAction action :
         {RecordedAction::segment_alloc, RecordedAction::alloc, RecordedAction::free_requested,
          RecordedAction::free_completed, RecordedAction::segment_free})
      recording.events.push_back(event(action, 0, 32 * MiB));
  AllocConfig expandable;
  expandable.expandable_segments = true;
  for (const WhatIfStart start : {WhatIfStart::recorded, WhatIfStart::cold}) {
    const WhatIfFigures result = figures({expandable, start, {}}, recording);
    CHECK(result.ooms == 0);
    CHECK(result.retries == 0);
  }
}

}  // namespace foregather::alloc::test
