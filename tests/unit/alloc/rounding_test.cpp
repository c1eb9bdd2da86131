#include "core/alloc/rounding.h"

#include <catch2/catch.hpp>

#include "tests/unit/alloc/fixture.h"

namespace foregather::alloc::test {

TEST_CASE("without divisions a request is rounded to 512 bytes") {
  const Rounding rounding{AllocConfig{}};
  CHECK(rounding.block_size(1) == 512);
  CHECK(rounding.block_size(511) == 512);
  CHECK(rounding.block_size(512) == 512);
  CHECK(rounding.block_size(513) == 1024);
  CHECK(rounding.block_size(1'048'577) == 1'049'088);
  CHECK(rounding.block_size(10'485'249) == 10'485'760);
}

TEST_CASE("the segment of a miss depends on the rounded size") {
  const Rounding rounding{AllocConfig{}};
  CHECK(rounding.segment_size(512) == 2 * MiB);
  CHECK(rounding.segment_size(1 * MiB) == 2 * MiB);
  CHECK(rounding.segment_size(1 * MiB + 512) == 20 * MiB);
  CHECK(rounding.segment_size(10 * MiB - 512) == 20 * MiB);
  CHECK(rounding.segment_size(10 * MiB) == 10 * MiB);
  CHECK(rounding.segment_size(10 * MiB + 512) == 12 * MiB);
  CHECK(rounding.segment_size(11 * MiB) == 12 * MiB);
  CHECK(rounding.segment_size(20 * MiB) == 20 * MiB);
  CHECK(rounding.segment_size(20 * MiB + 512) == 22 * MiB);
  const Rounding smaller{conf("large_segment_size_mb:12")};
  CHECK(smaller.segment_size(2 * MiB) == 12 * MiB);
  CHECK(smaller.segment_size(10 * MiB) == 10 * MiB);
}

TEST_CASE("divisions step between powers of two") {
  CHECK(round_to_division(1200, 4) == 1280);
  CHECK(round_to_division(1024, 4) == 1024);
  CHECK(round_to_division(5000, 4) == 5120);
  CHECK(round_to_division(3, 4) == 4);  // a step of 0: the next power of two
}

TEST_CASE("small requests do not reach the division step") {
  const Rounding rounding{conf("roundup_power2_divisions:4")};
  CHECK(rounding.block_size(1200) == 1536);  // not above 4 * 512
  CHECK(rounding.block_size(2048) == 2048);
  CHECK(rounding.block_size(5000) == 5120);
  CHECK(rounding.block_size(9 * MiB) == 10 * MiB);
  CHECK(rounding.block_size(8 * MiB) == 8 * MiB);
}

TEST_CASE("each power-of-two interval has its own divisions") {
  const Rounding rounding{conf("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]")};
  CHECK(rounding.block_size(100 * MiB + 1) == 100 * MiB + 512);  // 1 is off; fills lower slots
  CHECK(rounding.block_size(300 * MiB + 1) == 300 * MiB + 512);
  CHECK(rounding.block_size(600 * MiB) == 768 * MiB);
  CHECK(rounding.block_size(1100 * MiB) == 1152 * MiB);  // 8, not 4: see config.h
  CHECK(rounding.block_size(3000 * MiB) == 3072 * MiB);
  CHECK(rounding.block_size(40 * GiB) == 40 * GiB);
  CHECK(rounding.block_size(41 * GiB) == 44 * GiB);  // the last slot covers everything above
}

TEST_CASE("intervals that a list leaves out stay off") {
  const Rounding rounding{conf("roundup_power2_divisions:[1:0,4:2]")};
  CHECK(rounding.block_size(5 * MiB) == 6 * MiB);
  CHECK(rounding.block_size(3 * MiB + 1) == 3 * MiB + 512);
  CHECK(rounding.block_size(9 * MiB + 1) == 9 * MiB + 512);
}

}  // namespace foregather::alloc::test
