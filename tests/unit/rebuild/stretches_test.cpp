#include <bitset>
#include <catch2/catch.hpp>
#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "core/rebuild/stretches.h"

namespace foregather::rebuild {

TEST_CASE("stretches cover each moment once") {
  rc::prop("any stretches, some of them empty", [] {
    constexpr int kEnd = 64;
    std::bitset<kEnd> covered;
    std::vector<Stretch> stretches;
    for (int count = *rc::gen::inRange(0, 10); count > 0; --count) {
      const auto begin = *rc::gen::inRange<Ns>(0, kEnd), end = *rc::gen::inRange<Ns>(begin, kEnd);
      stretches.push_back({begin, end});
      for (Ns at = begin; at < end; ++at) covered.set(static_cast<std::size_t>(at));
    }
    RC_ASSERT(covered_by(stretches) == static_cast<Ns>(covered.count()));
  });
}

}  // namespace foregather::rebuild
