#include "core/base/lanes.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <rapidcheck.h>

using namespace foregather;

namespace {

std::vector<std::uint32_t> lanes_of(const std::vector<LaneSlice>& slices) {
  return lay_out_lanes(slices, 2).lane;
}

}  // namespace

TEST_CASE("lanes: a slice takes the lowest lane that is free") {
  // 0…10, 5…20, 10…12, 12…30, 12…13, 20…21
  CHECK(lanes_of({{0, 0, 10}, {0, 5, 20}, {0, 10, 12}, {0, 12, 30}, {0, 12, 13}, {0, 20, 21}}) ==
        std::vector<std::uint32_t>{0, 1, 0, 2, 0, 0});
}

TEST_CASE("lanes: the order of rows does not matter but for equal slices") {
  CHECK(lanes_of({{0, 5, 20}, {0, 0, 10}}) == std::vector<std::uint32_t>{1, 0});
  CHECK(lanes_of({{0, 5, 9}, {0, 5, 9}}) == std::vector<std::uint32_t>{0, 1});
}

TEST_CASE("lanes: groups have lanes of their own, and at least one") {
  const auto lanes = lay_out_lanes(std::vector<LaneSlice>{{0, 0, 10}, {1, 5, 20}}, 3);
  CHECK(lanes.lane == std::vector<std::uint32_t>{0, 0});
  CHECK(lanes.count == std::vector<std::uint32_t>{1, 1, 1});
}

TEST_CASE("lanes: an empty slice inside of another one moves, at its end it stays") {
  CHECK(lanes_of({{0, 0, 10}, {0, 5, 5}, {0, 10, 10}, {0, 10, 11}}) ==
        std::vector<std::uint32_t>{0, 1, 0, 0});
}

TEST_CASE("lanes: no two slices of a lane overlap, and no lane is superfluous") {
  CHECK(rc::check([] {
    std::vector<LaneSlice> slices;
    for (int i = *rc::gen::inRange(0, 40); i > 0; --i) {
      const Ns begin = *rc::gen::inRange(0, 60);
      slices.push_back({static_cast<std::uint32_t>(*rc::gen::inRange(0, 2)), begin,
                        begin + *rc::gen::inRange(0, 12)});
    }
    const Lanes lanes = lay_out_lanes(slices, 2);
    for (std::size_t a = 0; a < slices.size(); ++a) {
      RC_ASSERT(lanes.lane[a] < lanes.count[slices[a].group]);
      for (std::size_t b = 0; b < a; ++b)
        if (slices[a].group == slices[b].group && lanes.lane[a] == lanes.lane[b])
          RC_ASSERT(slices[a].end <= slices[b].begin || slices[b].end <= slices[a].begin);
    }
    // First fit needs as many lanes as slices are open at once.
    for (std::uint32_t group = 0; group < 2; ++group) {
      std::uint32_t most = 1;
      for (const LaneSlice& at : slices) {
        const auto open = std::count_if(slices.begin(), slices.end(), [&](const LaneSlice& s) {
          return s.group == group && s.begin <= at.begin && at.begin < s.end;
        });
        const bool adds_itself = at.group == group && at.begin == at.end;
        most = std::max(most, static_cast<std::uint32_t>(open) + (adds_itself ? 1 : 0));
      }
      RC_ASSERT(lanes.count[group] <= most);
    }
  }));
}
