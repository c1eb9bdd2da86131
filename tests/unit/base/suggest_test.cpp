#include "core/base/suggest.h"

#include <array>
#include <catch2/catch.hpp>

using namespace foregather;

namespace {
constexpr std::array<std::string_view, 4> kKeys{"micro_batch", "seq_len", "seed", "precision"};
}

TEST_CASE("the nearest key is suggested") {
  CHECK(nearest("micro_bacth", kKeys) == "micro_batch");
  CHECK(nearest("seqlen", kKeys) == "seq_len");
  CHECK(nearest("sede", kKeys) == "seed");
  CHECK(nearest("precision", kKeys) == "precision");
}

TEST_CASE("far words get no suggestion") {
  CHECK(!nearest("optimizer", kKeys));
  CHECK(!nearest("optimizer", {}));
  CHECK(!nearest(std::string(100'000, 'a'), kKeys));
}

TEST_CASE("a tie goes to the first") {
  constexpr std::array<std::string_view, 2> keys{"cat", "car"};
  CHECK(nearest("can", keys) == "cat");
}

TEST_CASE("as part of a message") {
  CHECK(did_you_mean("sed", kKeys) == ", did you mean 'seed'?");
  CHECK(did_you_mean("zzzzzzzzzz", kKeys).empty());
}
