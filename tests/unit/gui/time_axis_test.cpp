#include "gui/models/time_axis.h"
#include "gui/models/history.h"

#include <catch2/catch.hpp>
#include <rapidcheck.h>
#include <rapidcheck/catch.h>

using namespace foregather;
using namespace foregather::gui;

TEST_CASE("axis: pixels and times") {
  const TimeAxis axis{{1000, 3000}, 100};
  CHECK(axis.x(1000) == 0);
  CHECK(axis.x(3000) == 100);
  CHECK(axis.time(50) == 2000);
  CHECK(axis.pixel() == 20);
  CHECK(TimeAxis{{0, 10}, 100}.pixel() == 1);
}

TEST_CASE("axis: zooming keeps what is under the pointer and stays within the limits") {
  const TimeRange limits{0, 10'000};
  CHECK(zoomed({0, 10'000}, 0.5, 5000, limits) == TimeRange{2500, 7500});
  CHECK(zoomed({0, 100}, 0.5, 0, limits) == TimeRange{0, 50});
  CHECK(zoomed({0, 1}, 0.5, 0, limits) == TimeRange{0, 1});
  CHECK(zoomed({4000, 6000}, 100, 5000, limits) == limits);
  CHECK(panned({4000, 6000}, -10, limits) == TimeRange{0, 2000});
  rc::prop("zoom there and back", [&](std::uint16_t begin, std::uint16_t length) {
    const TimeRange range = clamped({begin % 5000, begin % 5000 + length % 4000 + 100}, limits);
    const Ns at = range.begin + range.length() / 3;
    const TimeRange in = zoomed(range, 0.5, at, limits);
    RC_ASSERT(in.begin <= at && at <= in.end && in.length() * 2 - range.length() <= 1);
  });
}

TEST_CASE("axis: ticks are round, apart and told apart") {
  const auto found = ticks({{0, 1'000'000}, 1000}, 100);
  std::vector<std::string> labels;
  for (const Tick& tick : found)
    if (!tick.label.empty()) labels.push_back(tick.label);
  REQUIRE(labels.size() == 11);
  CHECK(labels[0] == "0.0 ms");
  CHECK(labels[1] == "0.1 ms");
  CHECK(labels[10] == "1.0 ms");
  const auto close = ticks({{5'000'000'000, 5'000'000'010}, 1000}, 100);
  CHECK(close.front().label == "5.000000000 s");
  CHECK(close.back().label == "5.000000010 s");
  CHECK(ticks({{0, 1'000'000}, 0}, 90).empty());
  CHECK(ticks({{0, 1'000'000}, -8}, 90).empty());
  rc::prop("unique labels", [](std::int32_t at, std::uint16_t scale, std::uint8_t shift) {
    const Ns begin = Ns{at} * 500, length = (Ns{scale} + 1) << (shift % 24U);
    std::vector<std::string> seen;
    for (const Tick& tick : ticks({{begin, begin + length}, 800}, 90)) {
      if (tick.label.empty()) continue;
      RC_ASSERT((seen.empty() || seen.back() != tick.label));
      seen.push_back(tick.label);
    }
    RC_ASSERT(seen.size() <= 10);
  });
}

TEST_CASE("axis: positions are told to the nanosecond") {
  CHECK(format_position(0) == "0 ns");
  CHECK(format_position(-999) == "-999 ns");
  CHECK(format_position(1'042) == "1.042 µs");
  CHECK(format_position(-25'000'001) == "-25.000001 ms");
  CHECK(format_position(1'000'000'042) == "1.000000042 s");
  CHECK(format_position(Ns{1} << 61U) == "2305843009.213693952 s");
}

TEST_CASE("history: what goes on without a pause is one step, whatever came before it") {
  using namespace std::chrono_literals;
  History<TimeRange> history;
  const History<TimeRange>::Time start{};
  history.leave({0, 100}, true, start);
  history.leave({10, 90}, true, start + 500ms);
  history.leave({20, 80}, true, start + 1000ms);  // half a second after the one before
  history.leave({30, 70}, true, start + 1700ms);
  history.leave({40, 60}, false, start + 1800ms);  // another command
  history.leave({41, 59}, true, start + 1900ms);
  CHECK(history.back() == TimeRange{41, 59});
  history.leave({42, 58}, true, start + 2000ms);  // behind going back
  CHECK(history.back() == TimeRange{42, 58});
  CHECK(history.back() == TimeRange{40, 60});
  CHECK(history.back() == TimeRange{30, 70});
  CHECK(history.back() == TimeRange{0, 100});
  CHECK(history.empty());
}
