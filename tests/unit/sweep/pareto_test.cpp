#include "sim/sweep/pareto.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>

using namespace foregather::sim;

TEST_CASE("a candidate is on the front while no other one beats it") {
  ParetoFront front;
  CHECK(front.add(1, {5, 5, 1, 1}));
  CHECK(front.add(2, {4, 6, 1, 1}));
  CHECK_FALSE(front.add(3, {5, 6, 1, 1}));
  CHECK_FALSE(front.add(4, {5, 5, 1, 1}));  // equal: the first one stays
  CHECK(front.add(5, {4, 5, 1, 1}));        // beats both
  REQUIRE(front.members().size() == 1);
  CHECK(front.members().front().id == 5);
}

TEST_CASE("the front is what comparing all with all leaves") {
  rc::check([] {
    const auto all = *rc::gen::container<std::vector<Objectives>>(rc::gen::apply(
        [](int a, int b, int c) {
          return Objectives{a, b, c, 0};
        },
        rc::gen::inRange(0, 6), rc::gen::inRange(0, 6), rc::gen::inRange(0, 6)));
    ParetoFront front;
    for (std::size_t i = 0; i < all.size(); ++i) front.add(static_cast<std::int64_t>(i), all[i]);
    std::vector<std::int64_t> expected, found;
    for (std::size_t i = 0; i < all.size(); ++i) {
      bool is_beaten = false;
      for (std::size_t j = 0; j < all.size(); ++j)
        is_beaten = is_beaten || dominates(all[j], all[i]) || (j < i && all[j] == all[i]);
      if (!is_beaten) expected.push_back(static_cast<std::int64_t>(i));
    }
    for (const ParetoFront::Member& member : front.members()) found.push_back(member.id);
    RC_ASSERT(found == expected);
  });
}
