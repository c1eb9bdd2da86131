#include <catch2/catch.hpp>

#include "core/plan/ddp_buckets.h"

using namespace foregather::plan;

namespace {

using Rows = std::vector<std::uint32_t>;
const std::vector<std::int64_t> kSizes{10, 30, 5, 20};

}  // namespace

TEST_CASE("a bucket closes once it has reached its limit") {
  // 4-byte elements; limits 40 and 100 bytes: {3} has 80, {2, 1} has 140, {0} is left over.
  const BucketPlan plan = assign_buckets(Rows{3, 2, 1, 0}, kSizes, 4, 40, 100);
  CHECK(plan.members == std::vector<Rows>{{3}, {2, 1}, {0}});
  CHECK(plan.elements == std::vector<std::int64_t>{20, 35, 10});
  CHECK(plan.places[1].bucket == 1);
  CHECK(plan.places[1].offset == 5);
  CHECK(plan.places[0].bucket == 2);
  CHECK(plan.places[0].offset == 0);
}

TEST_CASE("a limit that is met exactly closes the bucket") {
  const BucketPlan plan = assign_buckets(Rows{0, 1, 2, 3}, kSizes, 1, 10, 35);
  CHECK(plan.members == std::vector<Rows>{{0}, {1, 2}, {3}});
}

TEST_CASE("the first reduction has one bucket in order of registration") {
  const BucketPlan plan = single_bucket(Rows{0, 1, 2, 3}, kSizes);
  CHECK(plan.members == std::vector<Rows>{{0, 1, 2, 3}});
  CHECK(plan.elements == std::vector<std::int64_t>{65});
  CHECK(plan.places[3].offset == 45);
}
