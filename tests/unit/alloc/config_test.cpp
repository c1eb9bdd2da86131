#include "core/alloc/config.h"

#include <string>
#include <catch2/catch.hpp>

namespace foregather::alloc {
namespace {

std::string config_error(std::string_view text) {
  const auto config = parse_alloc_conf(text);
  return config ? "" : config.error().message;
}

TEST_CASE("an empty text is the default") {
  CHECK(*parse_alloc_conf("") == AllocConfig{});
  CHECK(*parse_alloc_conf("  ") == AllocConfig{});
  CHECK(to_string(AllocConfig{}).empty());
}

TEST_CASE("every key is read") {
  const auto config = parse_alloc_conf(
      "backend:native, expandable_segments:True, garbage_collection_threshold:0.8,"
      "large_segment_size_mb:32,max_split_size_mb:128,max_non_split_rounding_mb:40,"
      "per_process_memory_fraction:0.5,roundup_power2_divisions:8,"
      "release_lock_on_cudamalloc:True,pinned_use_cuda_host_register:False,"
      "pinned_num_register_threads:8,pinned_use_background_threads:True,"
      "pinned_reserve_segment_size_mb:64,graph_capture_record_stream_reuse:True");
  REQUIRE(config);
  CHECK(config->expandable_segments);
  CHECK(config->garbage_collection_threshold == 0.8);
  CHECK(config->large_segment_size == 32 * MiB);
  CHECK(config->max_split_size == 128 * MiB);
  CHECK(config->max_non_split_rounding == 40 * MiB);
  CHECK(config->memory_fraction == 0.5);
  CHECK(config->roundup_power2_divisions[0] == 8);
  CHECK(config->roundup_power2_divisions[15] == 8);
  CHECK(config->native_backend);
}

TEST_CASE("a later key wins and a trailing comma is accepted") {
  const auto config = parse_alloc_conf("max_split_size_mb:64,max_split_size_mb:128,");
  REQUIRE(config);
  CHECK(config->max_split_size == 128 * MiB);
}

TEST_CASE("the rounding of oversize requests follows the large segment") {
  CHECK(parse_alloc_conf("large_segment_size_mb:40")->max_non_split_rounding == 40 * MiB);
}

TEST_CASE("a list of divisions fills below its first and above its last interval") {
  const auto config = parse_alloc_conf("roundup_power2_divisions:[4:2,16:4,64:8,>:16]");
  REQUIRE(config);
  CHECK(config->roundup_power2_divisions ==
        std::array<std::uint32_t, 16>{2, 2, 2, 0, 4, 0, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16});
  CHECK(parse_alloc_conf("roundup_power2_divisions:[65536:2]")->roundup_power2_divisions[15] == 2);
}

TEST_CASE("an unknown key names the nearest known one") {
  CHECK(config_error("max_split_size:128") ==
        "unknown allocator option 'max_split_size', did you mean 'max_split_size_mb'?");
  CHECK(config_error("expandable_segment:True") ==
        "unknown allocator option 'expandable_segment', did you mean 'expandable_segments'?");
  CHECK(config_error("colour:blue") == "unknown allocator option 'colour'");
}

TEST_CASE("bad values are refused with what was expected") {
  CHECK(config_error("max_split_size_mb:19") ==
        "max_split_size_mb: 19 is too small, expected at least 20");
  CHECK(config_error("max_split_size_mb:abc") == "max_split_size_mb: 'abc' is not a whole number");
  CHECK(config_error("max_split_size_mb:-1") == "max_split_size_mb: '-1' is not a whole number");
  CHECK(config_error("large_segment_size_mb:10") ==
        "large_segment_size_mb: 10 is not greater than 10");
  CHECK(config_error("max_non_split_rounding_mb:5") ==
        "max_non_split_rounding_mb: 5 is too small, expected at least 20");
  CHECK(config_error("expandable_segments:true") ==
        "expandable_segments: 'true' is neither True nor False");
  CHECK(config_error("garbage_collection_threshold:0.8x") ==
        "garbage_collection_threshold: '0.8x' is not a number");
  CHECK_FALSE(config_error("garbage_collection_threshold:1").empty());
  CHECK_FALSE(config_error("garbage_collection_threshold:0").empty());
  CHECK_FALSE(config_error("garbage_collection_threshold:nan").empty());
  CHECK_FALSE(config_error("per_process_memory_fraction:1.5").empty());
  CHECK_FALSE(config_error("roundup_power2_divisions:3").empty());
  CHECK_FALSE(config_error("roundup_power2_divisions:0").empty());
  CHECK_FALSE(config_error("roundup_power2_divisions:[3:4]").empty());
  CHECK_FALSE(config_error("roundup_power2_divisions:[4:3]").empty());
  CHECK_FALSE(config_error("roundup_power2_divisions:[4:2").empty());
  CHECK_FALSE(config_error("pinned_num_register_threads:3").empty());
  CHECK_FALSE(config_error("pinned_reserve_segment_size_mb:0").empty());
  CHECK_FALSE(config_error("backend:jemalloc").empty());
}

TEST_CASE("broken syntax is refused") {
  CHECK(config_error("expandable_segments") ==
        "expected ':' after 'expandable_segments' in the allocator configuration");
  CHECK(config_error("expandable_segments:") ==
        "allocator configuration ends after 'expandable_segments', expected a value");
  CHECK_FALSE(config_error("expandable_segments:True max_split_size_mb:128").empty());
  CHECK_FALSE(config_error("expandable_segments:True:True").empty());
  CHECK_FALSE(config_error(",").empty());
  CHECK_FALSE(config_error(":").empty());
}

TEST_CASE("the asynchronous backend is recognised, not replicated") {
  const auto config = parse_alloc_conf("backend:cudaMallocAsync");
  REQUIRE(config);
  CHECK_FALSE(config->native_backend);
}

TEST_CASE("the canonical text gives the configuration back") {
  for (const std::string_view text :
       {"expandable_segments:True", "max_split_size_mb:128",
        "garbage_collection_threshold:0.8,per_process_memory_fraction:0.9",
        "large_segment_size_mb:32", "large_segment_size_mb:32,max_non_split_rounding_mb:64",
        "roundup_power2_divisions:8", "backend:cudaMallocAsync"}) {
    CHECK(to_string(*parse_alloc_conf(text)) == text);
  }
  const auto listed = parse_alloc_conf("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]");
  CHECK(*parse_alloc_conf(to_string(*listed)) == *listed);
}

}  // namespace
}  // namespace foregather::alloc
