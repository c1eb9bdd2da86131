#include <catch2/catch.hpp>

#include <cstdlib>
#include <fstream>

#include "core/base/file.h"
#include "sim/passes/arguments.h"
#include "sim/passes/registry.h"
#include "tests/support/places.h"

using namespace foregather;
using namespace foregather::sim;

TEST_CASE("a size is a number of bytes or has a unit") {
  CHECK(parse_bytes("500MB") == 500'000'000);
  CHECK(parse_bytes("1000000") == 1'000'000);
  CHECK(parse_bytes("1GB") == 1'000'000'000);
  CHECK(parse_bytes("1TiB") == 1024 * GiB);
  CHECK(parse_bytes("1.5KiB") == 1536);
  for (const char* bad :
       {"", "0", "-1", "1e9", "GiB", "1 GiB", "1gib", "2000TiB", "inf", "nan", "80.7", "1.5B"})
    CHECK_FALSE(parse_bytes(bad));
}

TEST_CASE("bad passes are one clear error") {
  for (const char* bad : {"scale",
                          "scale=links",
                          "scale=links:",
                          "scale=links:x",
                          "scale=links:0",
                          "scale=links:nan",
                          "scale=links:-1",
                          "scale=links:1e9",
                          "scale=lanes:2",
                          "scale=links:2,x=1",
                          "scale=scope::2",
                          "delay",
                          "delay=after-loss",
                          "delay=after-loss:5",
                          "delay=after-los:5ms",
                          "delay=rank:x:5ms",
                          "delay=rank:1:-5ms",
                          "delay=scope::1ms",
                          "delay=after-loss:2h",
                          "fuze",
                          "dedup-shared-params=",
                          "dedup-shared-params=a",
                          "dedup-shared-params=a:a",
                          "prefetch",
                          "prefetch=pre",
                          "prefetch=none,x=1",
                          "forward-prefetch=1",
                          "limit-all-gathers",
                          "limit-all-gathers=x",
                          "limit-all-gathers=0",
                          "reshard",
                          "reshard=1",
                          "bucket",
                          "bucket=25",
                          "bucket=0MiB",
                          "bucket=layer,block",
                          "reshard=sometimes",
                          "reshard=always,now",
                          "rematerialize-all-gather=2",
                          "fuse-downcast=x",
                          "sort-waits=1",
                          "sort-communication,x",
                          "in-flight",
                          "in-flight=0",
                          "in-flight=x",
                          "in-flight=2,x=1",
                          "fusion",
                          "fusion=foo",
                          "fusion=none,memory=ignore",
                          "fusion=vertical,memory=no",
                          "fusion=vertical,x=1",
                          "recompute",
                          "recompute=full,x=1",
                          "order",
                          "order=x",
                          "order=list,x=1",
                          "fuse-downcast,x",
                          "fuse-downcast,prefetch_dtype=bf16",
                          "order=fast-free,x=1",
                          "order=fast-free,rule=2024",
                          "prefetch=budget,x=1",
                          "prefetch=budget,prefetch_dtype=bf16",
                          "in-flight=unlimited,x=1",
                          "selective-gather=x",
                          "selective-gather,x=1",
                          "",
                          "="}) {
    CAPTURE(bad);
    const auto pass = parse_pass(bad);
    REQUIRE_FALSE(pass.has_value());
    CHECK(pass.error().place == std::string("--what-if ") + bad);
    CHECK(pass.error().message.find('\n') == std::string::npos);
  }
  CHECK(parse_pass("delai=after-loss:1ms").error().message.find("did you mean 'delay'?") !=
        std::string::npos);
  CHECK(parse_pass("scale=link:2").error().message.find("did you mean 'links'?") !=
        std::string::npos);
}

TEST_CASE("times, counts and patterns") {
  CHECK(parse_duration("5ms") == 5 * kMillisecond);
  CHECK(parse_duration("1.5us") == 1500);
  CHECK(parse_duration("1ns") == 1);
  CHECK(parse_duration("2s") == 2 * kSecond);
  for (const char* bad : {"", "5", "ms", "0ns", "0.1ns", "-1ms", "nans", "infs", "4000s", "5 ms"})
    CHECK_FALSE(parse_duration(bad).has_value());
  CHECK(parse_count("3", 1, 4) == 3U);
  for (const char* bad : {"", "0", "5", "x", "3x", "-1", "99999999999"})
    CHECK_FALSE(parse_count(bad, 1, 4).has_value());
  CHECK(matches_scope("layers.3", "layers.3"));
  CHECK(matches_scope("layers.3", "layers.3.attn"));
  CHECK_FALSE(matches_scope("layers.3", "layers.31"));
  CHECK(matches_scope("layers.*.mlp", "layers.31.mlp"));
  CHECK(matches_scope("*mlp*", "layers.31.mlp.up"));
  CHECK(matches_scope("layers.?", "layers.1"));
  CHECK_FALSE(matches_scope("layers.?", "layers.11"));
  CHECK_FALSE(matches_scope("*.attn", "layers.1.mlp"));
  CHECK(matches_scope("*", ""));
}

TEST_CASE("docs/passes.md is what the registry says") {
  const std::string path = test::source_dir() + "/docs/passes.md";
  if (std::getenv("UPDATE_GOLDEN") != nullptr) std::ofstream(path) << passes_markdown();
  const auto text = read_file(path, MiB);
  REQUIRE(text.has_value());
  CHECK(*text == passes_markdown());
}
