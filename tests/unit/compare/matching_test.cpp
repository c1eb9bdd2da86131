#include <catch2/catch.hpp>

#include "core/compare/by_kernel.h"
#include "core/compare/matching.h"
#include "tests/support/example_run.h"

using namespace foregather;
using namespace foregather::compare;

namespace {

Ns matched(const Matching& matching, MatchLevel level) {
  return matching.second_matched[static_cast<std::size_t>(level)];
}

}  // namespace

TEST_CASE("a run meets itself op by op") {
  const run::Run run = test::example_run();
  const Matching matching = match(run, run::StepRow(0), run, run::StepRow(0));
  CHECK(matching.groups.size() == 3);
  CHECK(matching.second_time == 45);  // 10 + 15 of transfer + 20
  CHECK(matched(matching, MatchLevel::op) == 45);
  CHECK(matching.only_first.empty());
  CHECK(matching.only_second.empty());
}

TEST_CASE("what is no op of both meets by scope, by phase, or not at all") {
  const run::Run first = test::example_run();
  // The other class: gemm 15, all-gather 15, norm 10 instead of a second gemm.
  const Matching matching = match(first, run::StepRow(0), first, run::StepRow(1));
  CHECK(matching.second_time == 40);
  CHECK(matched(matching, MatchLevel::op) + matched(matching, MatchLevel::scope_kind) +
            matched(matching, MatchLevel::scope_phase) + matched(matching, MatchLevel::phase) ==
        40 - [&] {
          Ns left = 0;
          for (const MatchedGroup& group : matching.only_second) left += group.second_time;
          return left;
        }());
  CHECK(matched(matching, MatchLevel::op) == 30);
}

TEST_CASE("an op in a phase that the other run lacks is unmatched on its side") {
  const run::Run first = test::example_run();
  run::Run second = first;
  for (Phase& phase : second.ops.phase) phase = Phase::optimizer;
  const Matching matching = match(first, run::StepRow(0), second, run::StepRow(0));
  CHECK(matching.groups.empty());
  CHECK_FALSE(matching.only_first.empty());
  CHECK_FALSE(matching.only_second.empty());
}

TEST_CASE("kernels of two measured steps, the largest difference first") {
  run::Run first = test::example_run();
  for (std::size_t row = 0; row < first.ops.size(); ++row)
    first.ops.source[row] = first.text(row % 2 == 0 ? "gemm_kernel" : "ncclAllGather");
  run::Run second = first;
  second.ops.end[0] -= 4;
  const auto changes = by_kernel(first, run::StepRow(0), second, run::StepRow(0));
  REQUIRE(changes.size() == 2);
  CHECK(changes[0].name == "gemm_kernel");
  CHECK(changes[0].first_ops == 2);
  CHECK(changes[0].first_time - changes[0].second_time == 4);
  CHECK(changes[1].first_time == changes[1].second_time);
}

TEST_CASE("the step to compare is the steady one, else the last") {
  run::Run run = test::example_run();
  CHECK(step_to_compare(run, run::ClassRow(1)) == run::StepRow(1));
  for (run::StepInfo& step : run.steps) step.kind = run::StepKind::other;
  run::StepInfo more = run.steps[0];
  const run::StepRow last = run.add(more);
  CHECK(step_to_compare(run, run::ClassRow(0)) == last);
}
