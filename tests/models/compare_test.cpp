// Two recordings of one job, before and after a change: `compare` says where the time went.
#include "tasks/compare.h"

#include <catch2/catch.hpp>

#include "tests/support/skip.h"

using namespace foregather;

TEST_CASE("what kernels gave adds up to what the whole step gave") {
  const auto before = test::shared_data("nsys/nsys_ai/tests__fixtures__mfu_2gpu_before.sqlite");
  const auto after = test::shared_data("nsys/nsys_ai/tests__fixtures__mfu_2gpu_after.sqlite");
  if (!before || !after) FOREGATHER_SKIP("the shared traces are absent");
  const auto comparison = tasks::compare_runs({after->string(), before->string(), {}, {}, {}});
  if (!comparison) FAIL(comparison.error().text());
  Ns by_kernel = 0, by_group = 0;
  for (const compare::KernelChange& kernel : comparison->kernels)
    by_kernel += kernel.first_time - kernel.second_time;
  for (const compare::MatchedGroup& group : comparison->matching.groups)
    by_group += group.difference();
  CHECK(by_kernel == by_group);
  CHECK(by_kernel < 0);
  REQUIRE(comparison->kernels.size() > 10);
  CHECK(comparison->kernels[0].name.starts_with("void flash::flash_fwd_kernel"));
  // Named by their operators, most kernels meet one of the other run.
  CHECK(comparison->matching.second_matched[0] * 10 > comparison->matching.second_time * 7);
}
