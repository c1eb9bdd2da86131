#include "gui/models/step_curve.h"

#include <catch2/catch.hpp>
#include <rapidcheck.h>
#include <rapidcheck/catch.h>

using namespace foregather;
using namespace foregather::gui;

TEST_CASE("step curve: the value in force") {
  StepCurve curve;
  curve.add(10, 5);
  curve.add(20, 7);
  curve.add(15, 6);  // counts as 20
  curve.finish();
  CHECK(curve.at(9) == curve.size());
  CHECK(curve.at(10) == 0);
  CHECK(curve.at(20) == 2);
  CHECK(curve.highest(TimeRange{0, 10}) == curve.size());
  CHECK(curve.value(curve.highest(TimeRange{12, 13})) == 5);
  CHECK(curve.value(curve.highest(TimeRange{12, 21})) == 7);
}

TEST_CASE("step curve: columns show every peak and nothing else") {
  rc::prop("columns", [](const std::vector<std::uint8_t>& steps) {
    StepCurve curve;
    Ns time = 0;
    for (const std::uint8_t step : steps) {
      time += step % 7;
      curve.add(time, step);
    }
    curve.finish();
    const Ns begin = *rc::gen::inRange<Ns>(-5, 300), length = *rc::gen::inRange<Ns>(1, 400);
    const Ns pixel = *rc::gen::inRange<Ns>(1, 40);
    Ns reached = begin;
    Bytes highest = -1;
    std::size_t visits = 0;
    curve.columns({begin, begin + length}, pixel, [&](Ns from, Ns to, std::size_t point) {
      RC_ASSERT(from >= reached && to > from && to <= begin + length);
      for (std::size_t p = 0; p < curve.size(); ++p) {
        const Ns until = p + 1 < curve.size() ? curve.time(p + 1) : to;
        if (curve.time(p) < to && until > from) RC_ASSERT(curve.value(p) <= curve.value(point));
      }
      RC_ASSERT(curve.time(point) < to);
      highest = std::max(highest, curve.value(point));
      reached = to;
      ++visits;
    });
    const std::size_t peak = curve.highest(TimeRange{begin, begin + length});
    RC_ASSERT((peak == curve.size() ? -1 : curve.value(peak)) == highest);
    RC_ASSERT(visits <= 2 * static_cast<std::size_t>(length / pixel) + 3);
  });
}
