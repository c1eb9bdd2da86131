// Clocks of recordings that only a third one leads to.
#include "core/rebuild/clocks.h"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <vector>

using namespace foregather;
using namespace foregather::rebuild;

namespace {

constexpr Ns kMs = 1'000'000;
constexpr int kShared = 24;

/// What a recording's clock shows at a time of the job: `ahead`, and faster by `rate` in 10^12.
struct Truth {
  Ns ahead = 0;
  std::int64_t rate = 0;

  Ns shows(Ns time) const { return time + ahead + time / 1'000'000 * rate / 1'000'000; }
};

void add_shared(const std::vector<Truth>& truths, std::uint32_t a, std::uint32_t b,
                std::vector<SharedEnd>& ends) {
  for (int i = 0; i < kShared; ++i) {
    const Ns time = (100 + 100 * i) * kMs;
    ends.push_back({a, b, truths[a].shows(time), truths[b].shows(time) - truths[a].shows(time)});
  }
}

/// What the clock of a recording shows where that of the first shows `time`.
Ns shown(const Clock& clock, Ns time) {
  const double passed = static_cast<double>(time - clock.at);
  return time + clock.offset + static_cast<Ns>(passed * static_cast<double>(clock.rate) / 1e12);
}

void check_clocks(const std::vector<Truth>& truths, const std::vector<SharedEnd>& ends, Ns margin) {
  const auto clocks = align_clocks(truths.size(), ends);
  for (std::size_t i = 0; i < truths.size(); ++i) {
    REQUIRE(clocks[i]);
    for (const Ns time : {100 * kMs, 1200 * kMs, 2400 * kMs}) {
      INFO("recording " << i << " at " << time);
      CHECK(std::abs(shown(*clocks[i], truths[0].shows(time)) - truths[i].shows(time)) <= margin);
    }
  }
}

}  // namespace

TEST_CASE("a clock is found by way of a recording that comes later") {
  // 0 and 1 met 2 alone: from 0 to 2, then back to 1.
  const std::vector<Truth> truths{{0, 0}, {-3 * kMs, 0}, {7 * kMs, 0}};
  std::vector<SharedEnd> ends;
  add_shared(truths, 0, 2, ends);
  add_shared(truths, 1, 2, ends);
  check_clocks(truths, ends, 0);
}

TEST_CASE("a clock that drifts is found by way of another that drifts") {
  // 20 and 35 parts in a million: 50 and 87 µs from end to end.
  const std::vector<Truth> truths{{0, 0}, {5 * kMs, 35'000'000}, {-2 * kMs, -20'000'000}};
  std::vector<SharedEnd> ends;
  add_shared(truths, 0, 2, ends);
  add_shared(truths, 1, 2, ends);
  const auto clocks = align_clocks(3, ends);
  REQUIRE((clocks[1] && clocks[2]));
  CHECK(clocks[2]->rate == Approx(-20e6).epsilon(0.01));
  CHECK(clocks[1]->rate == Approx(35e6).epsilon(0.01));
  check_clocks(truths, ends, 200);
}

TEST_CASE("without enough collectives on the way there is no clock") {
  const std::vector<Truth> truths{{0, 0}, {kMs, 0}, {2 * kMs, 0}};
  std::vector<SharedEnd> ends;
  add_shared(truths, 0, 2, ends);
  ends.push_back({1, 2, 0, 5});
  const auto clocks = align_clocks(3, ends);
  CHECK(clocks[2].has_value());
  CHECK(!clocks[1].has_value());
}
