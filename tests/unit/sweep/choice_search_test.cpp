#include "sim/sweep/choice_search.h"

#include <algorithm>
#include <random>

#include <catch2/catch.hpp>

#include "sim/sweep/choice_program.h"
#include "tests/support/skip.h"

using namespace foregather;
using namespace foregather::sim;

namespace {

ChoiceRow random_row(std::mt19937& random, std::size_t choices, std::int64_t sign) {
  ChoiceRow row{1'000'000'000 + static_cast<std::int64_t>(random() % 1'000'000'000), {}};
  for (std::size_t i = 0; i < choices; ++i)
    row.parts.push_back(sign * static_cast<std::int64_t>(random() % 5) * 12'345'678);
  return row;
}

// Choices cost time and save bytes; some save nothing in one of the rows.
ChoiceRows random_rows(std::mt19937& random, std::size_t choices) {
  ChoiceRows rows;
  rows.choices = choices;
  for (int i = 0; i < 3; ++i) rows.cost.push_back(random_row(random, choices, 1));
  for (int i = 0; i < 5; ++i) rows.need.push_back(random_row(random, choices, -1));
  rows.limit = 1'700'000'000 + static_cast<std::int64_t>(random() % 300'000'000);
  return rows;
}

Choice set_of(std::uint32_t bits, std::size_t choices) {
  Choice choice(choices);
  for (std::size_t i = 0; i < choices; ++i) choice[i] = (bits >> i & 1) != 0;
  return choice;
}

// The least cost among all sets that fit.
template <class Judging>
std::optional<std::int64_t> least_of(std::size_t choices, const Judging& judging) {
  std::optional<std::int64_t> least;
  for (std::uint32_t bits = 0; bits < 1U << choices; ++bits) {
    const std::optional<Judgement> judgement = judging(set_of(bits, choices));
    if (judgement && judgement->fits() && (!least || judgement->cost < *least))
      least = judgement->cost;
  }
  return least;
}

// The truth is above the floor by what no row knows.
std::optional<Judgement> truth_of(const ChoiceRows& rows, const Choice& choice, unsigned seed) {
  const auto hash = std::hash<Choice>()(choice) * 2654435761U + seed;
  if (hash % 17 == 0) return std::nullopt;
  Judgement judgement = floor_of(rows, choice);
  judgement.cost += static_cast<std::int64_t>(hash % 50'000'000);
  if (hash % 5 == 0) judgement.excess += 1;
  return judgement;
}

}  // namespace

TEST_CASE("a sum of choices, and what a set of them cannot go below") {
  ChoiceRows rows;
  rows.choices = 3;
  rows.cost = {{10, {1, 2, 3}}, {12, {0, 0, 0}}};
  rows.need = {{100, {-10, 0, -30}}, {70, {0, 0, 5}}};
  rows.limit = 75;
  CHECK(floor_of(rows, {false, false, false}) == Judgement{25, 12});
  CHECK(floor_of(rows, {true, false, true}) == Judgement{0, 14});
  CHECK(floor_of(rows, {false, true, true}) == Judgement{0, 15});
  const std::vector<ChoiceRow> kept =
      without_dominated({{5, {1, 1}}, {6, {1, 2}}, {4, {9, 0}}, {6, {1, 2}}});
  CHECK(kept == std::vector<ChoiceRow>{{6, {1, 2}}, {4, {9, 0}}});
}

TEST_CASE("the solver's floor is that of the best of all sets") {
  if (!solver_name()) FOREGATHER_SKIP("built without GLPK");
  std::mt19937 random(7);
  int bounded = 0;
  for (int instance = 0; instance < 60; ++instance) {
    const std::size_t choices = 1 + random() % 10;
    const ChoiceRows rows = random_rows(random, choices);
    CAPTURE(instance, choices);
    const auto expected =
        least_of(choices, [&](const Choice& choice) { return floor_of(rows, choice); });
    std::vector<Choice> without;
    const auto first = least_choice(rows, without);
    if (!first) FAIL(first.error().text());
    REQUIRE(first->has_value() == expected.has_value());
    if (!expected) continue;
    ++bounded;
    CHECK((*first)->floor <= *expected);
    CHECK((*first)->floor >= *expected - *expected / 500'000);
    // Without that set the floor rises, or stays where another one reaches it.
    without.push_back((*first)->choice.value());
    const auto second = least_choice(rows, without);
    REQUIRE(second);
    const auto rest = least_of(choices, [&](const Choice& choice) -> std::optional<Judgement> {
      if (choice == without.front()) return std::nullopt;
      return floor_of(rows, choice);
    });
    REQUIRE(second->has_value() == rest.has_value());
    if (rest) CHECK((*second)->floor <= *rest);
    if (rest) CHECK((*second)->choice != without.front());
  }
  CHECK(bounded > 30);
}

TEST_CASE("the solver takes 60 like choices at once") {
  if (!solver_name()) FOREGATHER_SKIP("built without GLPK");
  ChoiceRows rows;
  rows.choices = 60;
  rows.cost = {{1'000'000'000, std::vector<std::int64_t>(60, 6'000'000)}};
  rows.need = {{80'000'000'000, std::vector<std::int64_t>(60, -1'000'000'001)}};
  rows.limit = 60'000'000'000;
  const auto found = least_choice(rows, {});
  REQUIRE(found);
  REQUIRE(found->has_value());
  REQUIRE((*found)->choice.has_value());
  CHECK(std::ranges::count((*found)->choice.value(), true) == 20);
  CHECK((*found)->floor <= 1'120'000'000);
  CHECK((*found)->floor > 1'119'000'000);
}

TEST_CASE("a search of sets finds the best of all, and its floor is one") {
  std::mt19937 random(9);
  int proved = 0, bounded = 0;
  for (unsigned instance = 0; instance < 40; ++instance) {
    const std::size_t choices = 2 + random() % 9;
    const ChoiceRows rows = random_rows(random, choices);
    const auto judging = [&](const Choice& choice) { return truth_of(rows, choice, instance); };
    const JudgeChoice judge = [&](const Choice& choice) -> Result<std::optional<Judgement>> {
      return judging(choice);
    };
    const auto expected = least_of(choices, judging);
    CAPTURE(instance, choices);
    const auto all = search_choices(rows, judge, std::nullopt, std::nullopt, {1'000, 0, 12, {}});
    REQUIRE(all);
    CHECK(all->is_proved);
    REQUIRE(all->best.has_value() == expected.has_value());
    if (expected) CHECK(all->best->judgement.cost == *expected);
    if (expected) CHECK(all->cost_floor == *expected);
    // By local search and the solver alone.
    const auto some = search_choices(rows, judge, std::nullopt, std::nullopt, {40, 10, 0, {}});
    REQUIRE(some);
    CHECK(some->judged <= 50);
    if (some->cost_floor && expected) CHECK(*some->cost_floor <= *expected);
    bounded += some->cost_floor.has_value() ? 1 : 0;
    if (some->is_proved && expected) CHECK(some->best->judgement.cost == *expected);
    proved += some->is_proved ? 1 : 0;
    // What is known without is not found again.
    if (!expected) continue;
    const auto beaten =
        search_choices(rows, judge, std::nullopt, Judgement{0, *expected}, {1'000, 0, 12, {}});
    REQUIRE(beaten);
    CHECK(beaten->is_proved);
    CHECK_FALSE(beaten->best.has_value());
    CHECK(beaten->cost_floor == *expected);
  }
  if (solver_name()) CHECK(bounded > 20);
  if (solver_name()) CHECK(proved > 0);
}

TEST_CASE("a search of sets that time or a judge ends says no more than it knows") {
  std::mt19937 random(7);
  const std::size_t choices = 9;
  const ChoiceRows rows = random_rows(random, choices);
  const auto judging = [&](const Choice& choice) { return truth_of(rows, choice, 1); };
  const auto expected = least_of(choices, judging);
  REQUIRE(expected);
  // The judge of one set fails: all, local moves, enumeration and solver, hand that on.
  const auto failing_at = [&](std::int64_t at, const ChoiceLimits& limits) {
    std::int64_t judged = 0;
    const JudgeChoice judge = [&](const Choice& choice) -> Result<std::optional<Judgement>> {
      if (judged++ == at) return fail("no such set");
      return judging(choice);
    };
    return search_choices(rows, judge, std::nullopt, std::nullopt, limits);
  };
  for (const ChoiceLimits& limits : {ChoiceLimits{1'000, 0, 12, {}}, ChoiceLimits{8, 0, 12, {}}}) {
    const auto whole = failing_at(-1, limits);
    REQUIRE(whole);
    REQUIRE(whole->judged > 5);
    for (std::int64_t at = 0; at < whole->judged; ++at) {
      const auto failed = failing_at(at, limits);
      REQUIRE_FALSE(failed);
      CHECK(failed.error().message == "no such set");
    }
  }
  // Time is over after so many sets: what is left costs at least its floor.
  const std::int64_t most = failing_at(-1, {0, 0, 12, {}})->judged;
  REQUIRE(most > 0);
  for (std::int64_t sets = 0; sets < most; ++sets) {
    std::int64_t judged = 0;
    const JudgeChoice judge = [&](const Choice& choice) -> Result<std::optional<Judgement>> {
      ++judged;
      return judging(choice);
    };
    const auto found = search_choices(rows, judge, std::nullopt, std::nullopt,
                                      {0, 0, 12, [&] { return judged >= sets; }});
    REQUIRE(found);
    CHECK(found->judged == sets);
    CHECK_FALSE(found->is_proved);
    REQUIRE(found->cost_floor);
    CHECK(*found->cost_floor <= *expected);
  }
}

TEST_CASE("without rows a search of sets goes downhill and claims nothing") {
  ChoiceRows rows;
  rows.choices = 6;
  const Choice target{true, false, true, true, false, false};
  std::int64_t judged = 0;
  const JudgeChoice judge = [&](const Choice& choice) -> Result<std::optional<Judgement>> {
    ++judged;
    std::int64_t cost = 100;
    for (std::size_t i = 0; i < choice.size(); ++i) cost += choice[i] == target[i] ? 0 : 7;
    return Judgement{0, cost};
  };
  const auto found = search_choices(rows, judge, std::nullopt, std::nullopt, {60, 60, 12, {}});
  REQUIRE(found);
  REQUIRE(found->best.has_value());
  CHECK(found->best->choice == target);
  CHECK_FALSE(found->is_proved);
  CHECK_FALSE(found->cost_floor.has_value());
  CHECK(judged == found->judged);
  CHECK(judged < 60);
  const JudgeChoice failing = [](const Choice&) -> Result<std::optional<Judgement>> {
    return fail("no such set");
  };
  CHECK(
      search_choices(rows, failing, std::nullopt, std::nullopt, {60, 60, 12, {}}).error().message ==
      "no such set");
}
