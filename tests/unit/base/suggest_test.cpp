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

TEST_CASE("capitals and separators never matter to a suggestion") {
  constexpr std::array<std::string_view, 6> names{"a10",      "a10g", "h100_sxm_500w",
                                                  "rtx_4090", "l40",  "l40s"};
  CHECK(nearest("A10G", names) == "a10g");
  CHECK(nearest("l40S", names) == "l40s");
  CHECK(nearest("H100-SXM-500W", names) == "h100_sxm_500w");
  CHECK(nearest("RTX4090", names) == "rtx_4090");
  constexpr std::array<std::string_view, 3> strategies{"ddp", "fsdp1", "fsdp2"};
  CHECK(nearest("FSDP2", strategies) == "fsdp2");
}

TEST_CASE("a part of names goes before a near spelling") {
  constexpr std::array<std::string_view, 10> names{
      "a10",       "b200_sxm", "gb200",    "gh200",    "h100_64_sxm",
      "h100_pcie", "h100_nvl", "h100_sxm", "h200_sxm", "rtx_a6000"};
  CHECK(did_you_mean("H100", names) == ", did you mean 'h100_nvl', 'h100_sxm' or 'h100_pcie'?");
  CHECK(did_you_mean("h200", names) == ", did you mean 'h200_sxm'?");
  CHECK(did_you_mean("b200", names) == ", did you mean 'b200_sxm'?");
  CHECK(did_you_mean("a6000", names) == ", did you mean 'rtx_a6000'?");
  CHECK(did_you_mean("h1", names) == ", did you mean 'a10'?");

  constexpr std::array<std::string_view, 3> amd{"mi300x", "mi325x", "mi250_mi300"};
  CHECK(did_you_mean("mi300", amd) == ", did you mean 'mi250_mi300'?");
  CHECK(did_you_mean("mi32", amd) == ", did you mean 'mi325x'?");
}

TEST_CASE("a word of separators alone is no part of anything") {
  constexpr std::array<std::string_view, 2> names{"h100_sxm", "--"};
  CHECK(did_you_mean("___", names) == ", did you mean '--'?");
  CHECK(!nearest("_ _", std::span(names).first(1)));
}
