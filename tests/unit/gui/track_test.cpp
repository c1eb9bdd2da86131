#include "gui/models/track.h"

#include <catch2/catch.hpp>
#include <rapidcheck.h>
#include <rapidcheck/catch.h>

using namespace foregather;
using namespace foregather::gui;

namespace {

/// Gaps and lengths in turn, so that spans are disjoint and some are marks.
Track track_of(const std::vector<std::uint8_t>& gaps_and_lengths) {
  Track track;
  Ns at = 0;
  for (std::size_t i = 0; i + 1 < gaps_and_lengths.size(); i += 2) {
    const Ns begin = at + gaps_and_lengths[i] % 16;
    at = begin + gaps_and_lengths[i + 1] % 32;
    track.add(begin, at, static_cast<std::uint32_t>(i / 2));
  }
  track.finish();
  return track;
}

std::vector<Track::Cell> cells(const Track& track, TimeRange range, Ns pixel) {
  std::vector<Track::Cell> found;
  track.cells(range, pixel, [&](const Track::Cell& cell) { found.push_back(cell); });
  return found;
}

}  // namespace

TEST_CASE("track: spans shorter than a pixel fold, longer ones stand alone") {
  Track track;
  for (const Ns begin : {0, 10, 20, 30}) track.add(begin, begin + 5, 0);
  track.add(40, 240, 0);
  track.add(250, 250, 0);
  track.finish();
  const auto found = cells(track, {0, 1000}, 100);
  REQUIRE(found.size() == 3);
  CHECK(found[0].last - found[0].first == 4);
  CHECK(found[0].end == 35);
  CHECK(found[1].is_single());
  CHECK(found[1].begin == 40);
  CHECK(found[2].begin == 250);  // a mark is seen
  CHECK(track.longest(0, 6) == 4);
  CHECK(track.longest(0, 4) == 0);
  CHECK(track.at(239) == 4);
  CHECK(track.at(240) == track.size());
  CHECK(track.at(250) == 5);
  CHECK(cells(track, {36, 39}, 1).empty());
}

TEST_CASE("track: every span of the range is in one cell, and no cell is smaller than it looks") {
  rc::prop("cells", [](const std::vector<std::uint8_t>& numbers) {
    const Track track = track_of(numbers);
    const Ns begin = *rc::gen::inRange<Ns>(-10, 2000), length = *rc::gen::inRange<Ns>(1, 3000);
    const Ns pixel = *rc::gen::inRange<Ns>(1, 200);
    const auto found = cells(track, {begin, begin + length}, pixel);
    std::size_t next = track.first_after(begin);
    for (const Track::Cell& cell : found) {
      RC_ASSERT(cell.first == next);
      RC_ASSERT(cell.begin == track.begin(cell.first));
      RC_ASSERT(cell.end == track.end(cell.last - 1));
      if (!cell.is_single()) RC_ASSERT(cell.begin / pixel == track.begin(cell.last - 1) / pixel);
      next = cell.last;
    }
    RC_ASSERT((next == track.size() || track.begin(next) >= begin + length));
    RC_ASSERT(found.size() <= 2 * static_cast<std::size_t>(length / pixel + 2));
  });
}

TEST_CASE("track: busy time and longest span by counting") {
  rc::prop("busy", [](const std::vector<std::uint8_t>& numbers) {
    const Track track = track_of(numbers);
    const Ns begin = *rc::gen::inRange<Ns>(-10, 2000), length = *rc::gen::inRange<Ns>(1, 3000);
    Ns busy = 0;
    for (std::size_t span = 0; span < track.size(); ++span)
      busy += std::max<Ns>(
          0, std::min(track.end(span), begin + length) - std::max(track.begin(span), begin));
    RC_ASSERT(track.busy({begin, begin + length}) == busy);
    if (track.empty()) return;
    const auto first = *rc::gen::inRange<std::size_t>(0, track.size());
    const auto last = *rc::gen::inRange<std::size_t>(first + 1, track.size() + 1);
    std::size_t longest = first;
    for (std::size_t span = first; span < last; ++span)
      if (track.length(span) > track.length(longest)) longest = span;
    RC_ASSERT(track.longest(first, last) == longest);
  });
}

TEST_CASE("track: many spans of a pixel fold by blocks, and what is long still stands alone") {
  Track track;
  constexpr std::uint32_t kSpans = 100'000;
  Ns time = 0;
  std::vector<std::size_t> long_ones;
  for (std::uint32_t i = 0; i < kSpans; ++i) {
    const bool is_long = i % 7777 == 5000;
    if (is_long) long_ones.push_back(i);
    track.add(time, time + (is_long ? 5000 : 3 + i % 5), i);
    time = track.end(i) + 2;
  }
  track.finish();
  for (const Ns pixel : {10, 100, 1000, 4999, 40'000}) {
    std::size_t next = 0, cells_seen = 0, alone = 0;
    for (const Track::Cell& cell : cells(track, {0, time}, pixel)) {
      REQUIRE(cell.first == next);
      REQUIRE(cell.end == track.end(cell.last - 1));
      for (std::size_t span = cell.first; span < cell.last; ++span)
        if (track.length(span) >= pixel) {
          REQUIRE(cell.is_single());
          ++alone;
        }
      // A pixel, and what a block, a quarter of it at most, may reach beyond it.
      if (!cell.is_single()) REQUIRE(cell.end - cell.begin < 2 * pixel + 16 * 10);
      next = cell.last;
      ++cells_seen;
    }
    CHECK(next == kSpans);
    CHECK(alone == (pixel <= 5000 ? long_ones.size() : 0));
    CHECK(cells_seen <= 3 * static_cast<std::size_t>(time / pixel + 1));
  }
}

TEST_CASE("track: no cell reaches over a gap that a picture shows") {
  Track track;
  Ns time = 0;
  for (std::uint32_t i = 0; i < 200'000; ++i) {
    // Bursts that end within blocks of every size.
    if (i % 3001 == 1700) time += i % 2 == 0 ? 10'000 : 400'000;
    track.add(time, time + 1, i);
    time += 2;
  }
  track.finish();
  for (const Ns pixel : {50, 100, 1000, 4999, 100'000}) {
    std::size_t next = 0, cells_seen = 0;
    for (const Track::Cell& cell : cells(track, {0, time}, pixel)) {
      REQUIRE(cell.first == next);
      next = cell.last;
      ++cells_seen;
      REQUIRE(cell.end == track.end(cell.last - 1));
      REQUIRE(cell.end - cell.begin <= 2 * pixel);
    }
    CHECK(next == track.size());
    CHECK(cells_seen <= 3 * static_cast<std::size_t>(time / pixel + 1));
  }
}

TEST_CASE("track: a pyramid of several levels finds the longest") {
  Track track;
  for (std::uint32_t i = 0; i < 10'000; ++i) track.add(10 * i, 10 * i + (i == 7777 ? 9 : 5), i);
  track.finish();
  CHECK(track.longest(0, 10'000) == 7777);
  CHECK(track.longest(0, 7777) == 0);
  CHECK(track.longest(17, 7778) == 7777);
  CHECK(track.longest(7778, 9999) == 7778);
}
