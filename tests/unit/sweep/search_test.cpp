#include "sim/sweep/search.h"

#include <algorithm>
#include <array>
#include <random>

#include <catch2/catch.hpp>

using namespace foregather;
using namespace foregather::sim;

namespace {

Grid grid_with(const std::vector<std::string>& texts) {
  std::vector<Axis> axes;
  for (const std::string& text : texts) axes.push_back(Axis::parse(text).value());
  return Grid::make(std::move(axes)).value();
}

// Costs and needs of a made-up schedule: each value of each axis has a part, pairs interact, and
// floors leave out the interaction. A few points are impossible or not allowed.
class MadeUp final : public Judge {
 public:
  MadeUp(const Grid& grid, unsigned seed, std::int64_t limit) : grid_(grid), limit_(limit) {
    std::mt19937 random(seed);
    std::uniform_int_distribution<std::int64_t> part(0, 100), interaction(0, 60);
    for (const Axis& axis : grid.axes()) {
      parts_.emplace_back();
      for (std::int64_t i = 0; i < axis.size(); ++i)
        parts_.back().push_back({part(random), part(random)});
    }
    for (auto& each : interactions_) each = interaction(random);
    never_ = static_cast<std::int64_t>(random() % 7) + 5;
  }

  Result<bool> is_allowed(std::int64_t point) override {
    return point % never_ != 1 && point >= first_allowed && point % only_each == 0;
  }

  std::optional<Judgement> floor(std::int64_t point) override {
    if (point % never_ == 2) return std::nullopt;
    return sum(point, 0);
  }

  Result<std::optional<Judgement>> judge(std::int64_t point) override {
    ++judged;
    return truth(point);
  }

  std::optional<Judgement> truth(std::int64_t point) {
    if (point % never_ == 2 || point % never_ == 3) return std::nullopt;
    return sum(point, interactions_[static_cast<std::size_t>(point * 7919) % interactions_.size()]);
  }

  std::int64_t judged = 0;
  std::int64_t first_allowed = 0, only_each = 1;

 private:
  Judgement sum(std::int64_t point, std::int64_t more) {
    std::vector<std::int64_t> at;
    grid_.positions(point, at);
    std::int64_t cost = more, need = more;
    for (std::size_t axis = 0; axis < at.size(); ++axis) {
      cost += parts_[axis][static_cast<std::size_t>(at[axis])].first;
      need += parts_[axis][static_cast<std::size_t>(at[axis])].second;
    }
    return {std::max<std::int64_t>(need - limit_, 0), cost, need};
  }

  const Grid& grid_;
  std::int64_t limit_, never_ = 1;
  std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> parts_;
  std::array<std::int64_t, 31> interactions_{};
};

std::optional<JudgedPoint> best_of_all(const Grid& grid, MadeUp& judge) {
  std::optional<JudgedPoint> best;
  for (std::int64_t point = 0; point < grid.size(); ++point) {
    if (!judge.is_allowed(point).value()) continue;
    const auto judgement = judge.truth(point);
    if (!judgement || !judgement->fits()) continue;
    if (!best || JudgedPoint{point, *judgement} < *best) best = JudgedPoint{point, *judgement};
  }
  return best;
}

SearchLimits all_of(const Grid& grid) { return {grid.size(), grid.size(), {}}; }

}  // namespace

TEST_CASE("a search that may go through the grid finds what a visit to all points finds") {
  const Grid grid = grid_with({"a=1..4", "b=x,y,z", "c=1..5", "d=on,off", "e=1..20"});
  std::int64_t judged = 0;
  int fitting = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    MadeUp judge(grid, seed, 120 + 5 * static_cast<std::int64_t>(seed));
    const auto outcome = search(grid, judge, all_of(grid)).value();
    const auto expected = best_of_all(grid, judge);
    CHECK(outcome.is_proved);
    CHECK(outcome.best == expected);
    CHECK(outcome.best.has_value() == outcome.cost_floor.has_value());
    CHECK(std::ssize(outcome.judged) + outcome.ruled_out + outcome.excluded + outcome.impossible ==
          grid.size());
    fitting += expected ? 1 : 0;
    judged += judge.judged;
  }
  CHECK(fitting > 30);
  CHECK(judged < 60 * grid.size() / 5);  // floors rule most of them out
}

TEST_CASE("a search of a large grid judges no more than it may, and is close to the best") {
  const Grid grid = grid_with({"a=1..10", "b=1..10", "c=1..10", "d=1..10"});
  for (unsigned seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    MadeUp judge(grid, seed, 200);
    const auto outcome = search(grid, judge, {200, 0, {}}).value();
    const auto expected = best_of_all(grid, judge);
    CHECK(judge.judged <= 200);
    CHECK_FALSE(outcome.is_proved);
    REQUIRE(outcome.best.has_value() == expected.has_value());
    if (expected) CHECK(outcome.best->judgement.cost <= expected->judgement.cost + 60);
  }
}

TEST_CASE("a search of a grid of 10^12 points ends") {
  const Grid grid = grid_with({"a=1..10000", "b=1..10000", "c=1..10000"});
  MadeUp judge(grid, 3, 300);
  const auto outcome = search(grid, judge, {500, 4096, {}}).value();
  CHECK(outcome.best.has_value());
  CHECK(judge.judged <= 500);
}

TEST_CASE("a search of a large grid goes through it where conditions leave few points") {
  const Grid grid = grid_with({"a=1..40", "b=1..40", "c=1..40"});
  for (unsigned seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    MadeUp judge(grid, seed, 250);
    judge.only_each = 613;
    const auto outcome = search(grid, judge, {20, 200, {}}).value();
    CHECK(outcome.is_proved);
    CHECK(outcome.best == best_of_all(grid, judge));
    CHECK(std::ssize(outcome.judged) + outcome.ruled_out + outcome.excluded + outcome.impossible ==
          grid.size());
  }
}

TEST_CASE("a search finds what is allowed where the first million points are not") {
  const Grid grid = grid_with({"a=1..8", "b=1..1000", "c=1..1000"});
  MadeUp judge(grid, 3, 300);
  judge.first_allowed = grid.size() / 4;
  const auto outcome = search(grid, judge, {50, 10, {}}).value();
  CHECK(outcome.best.has_value());
}

TEST_CASE("a search in which nothing fits proves it and says what comes closest") {
  const Grid grid = grid_with({"a=1..4", "b=1..4", "c=1..4"});
  constexpr std::int64_t kMostConfirmed = 16;
  int exact = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    MadeUp judge(grid, seed, -1000);
    const auto outcome = search(grid, judge, all_of(grid)).value();
    CHECK(outcome.is_proved);
    CHECK_FALSE(outcome.best.has_value());
    REQUIRE(outcome.closest.has_value());
    CHECK(outcome.closest->judgement.excess > 900);
    // That nothing fits is said by the floors alone.
    CHECK(judge.judged <= kMostConfirmed);
    CHECK(std::ssize(outcome.judged) + outcome.ruled_out + outcome.excluded + outcome.impossible ==
          grid.size());
    if (judge.judged == kMostConfirmed) continue;
    ++exact;
    std::optional<JudgedPoint> closest;
    for (std::int64_t point = 0; point < grid.size(); ++point)
      if (const auto truth = judge.truth(point); judge.is_allowed(point).value() && truth)
        if (const JudgedPoint entry{point, *truth}; !closest || entry < *closest) closest = entry;
    CHECK(outcome.closest == closest);
  }
  CHECK(exact > 10);
}

TEST_CASE("a search that is over at once has no answer") {
  const Grid grid = grid_with({"a=1..4"});
  MadeUp judge(grid, 1, 1000);
  const auto outcome = search(grid, judge, {4, 4, [] { return true; }}).value();
  CHECK(outcome.is_over);
  CHECK_FALSE(outcome.best.has_value());
  CHECK_FALSE(outcome.is_proved);
}
