// Two recordings of one job, before and after a change: `compare` says where the time went.
#include "tasks/compare.h"

#include <cstdlib>
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
  // Both without what collectives waited for the other rank.
  CHECK(comparison->first.busy.wait != comparison->second.busy.wait);
  CHECK(by_kernel == by_group);
  CHECK(by_kernel < 0);
  REQUIRE(comparison->kernels.size() > 10);
  CHECK(comparison->kernels[0].name.starts_with("void flash::flash_fwd_kernel"));
  // Named by their operators, most kernels meet one of the other run.
  CHECK(comparison->matching.second_matched[0] * 10 > comparison->matching.second_time * 7);
}

TEST_CASE("the bytes of a recording that have a cause are its recorded peak") {
  for (const char* name :
       {"kineto/triosim/data__profiler__profiler_vgg13-iter41.json",
        "kineto/tracelens/traces__h100__gaunernst_bert-small-uncased__1016001.json.gz"}) {
    const auto path = test::shared_data(name);
    if (!path) FOREGATHER_SKIP("the shared traces are absent");
    INFO(name);
    const auto comparison = tasks::compare_runs({path->string(), path->string(), {}, {}, {}});
    REQUIRE(comparison);
    const tasks::ComparedSide& side = comparison->first;
    CHECK(side.memory.is_inferred);
    CHECK(std::abs(side.memory.total() - side.peak_allocated) <= side.peak_allocated / 1000);
  }
}

TEST_CASE("a recorded training step holds mostly activations") {
  const auto path = test::shared_data("kineto/triosim/data__profiler__profiler_vgg13-iter41.json");
  if (!path) FOREGATHER_SKIP("the shared traces are absent");
  const auto comparison = tasks::compare_runs({path->string(), path->string(), {}, {}, {}});
  REQUIRE(comparison);
  const auto& by_cause = comparison->first.memory.by_cause;
  const Bytes total = comparison->first.memory.total();
  CHECK(by_cause[static_cast<std::size_t>(Cause::activation)] > total / 2);
  CHECK(by_cause[static_cast<std::size_t>(Cause::unknown)] < total / 1000);
}
