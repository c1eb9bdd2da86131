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
  CHECK(matching.matched == 3);
  CHECK(matching.groups.size() == 3);
  CHECK(matching.key(matching.groups[0]) == "m0/layers.0.attn/forward/gemm/0");
  CHECK(matching.group_of[0] == std::vector<std::uint32_t>{0, 1, 2});
  CHECK(matching.second_time == 45);  // 10 + 15 of transfer + 20
  CHECK(matched(matching, MatchLevel::op) == 45);
  CHECK(matching.of_first_alone().empty());
  CHECK(matching.of_second_alone().empty());
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
          for (const MatchedGroup& group : matching.of_second_alone()) left += group.second_time;
          return left;
        }());
  CHECK(matched(matching, MatchLevel::op) == 30);
}

TEST_CASE("an op in a phase that the other run lacks is unmatched on its side") {
  const run::Run first = test::example_run();
  run::Run second = first;
  for (Phase& phase : second.ops.phase) phase = Phase::optimizer;
  const Matching matching = match(first, run::StepRow(0), second, run::StepRow(0));
  CHECK(matching.met().empty());
  REQUIRE(matching.of_first_alone().size() == 3);
  REQUIRE(matching.of_second_alone().size() == 3);
  const MatchedGroup& gather = matching.of_first_alone()[1];
  CHECK(matching.key(gather) == "layers.0/forward/all_gather");
  CHECK(gather.first_time == 15);
  CHECK(gather.second_ops == 0);
  CHECK(matching.group_of[1] == std::vector<std::uint32_t>{3, 4, 5});
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

TEST_CASE("two measured steps meet by scope, phase and kernel, in order") {
  run::Run first = test::example_run();
  first.about.kind = run::RunKind::measured;
  for (std::size_t row = 0; row < 3; ++row) {
    first.ops.source[row] = first.text("kernel");
    first.ops.scope[row] = {};
    first.ops.ordinal[row] = 0;
  }
  run::Run second = first;
  second.ops.kind[1] = OpKind::other;  // how a kernel is classified does not matter
  const Matching matching = match(first, run::StepRow(0), second, run::StepRow(0));
  REQUIRE(matching.met().size() == 3);
  CHECK(matching.key(matching.groups[2]) == "-/forward/kernel/2");
  CHECK(matched(matching, MatchLevel::op) == matching.second_time);
}

TEST_CASE("rows of a comparison name every op's group") {
  const run::Run run = test::example_run();
  const Matching matching = match(run, run::StepRow(0), run, run::StepRow(1));
  const run::Comparison rows =
      comparison_rows(matching, {"a", "b"}, {run::StepRow(0), run::StepRow(1)});
  REQUIRE(rows.groups.size() == matching.groups.size());
  Ns second = 0;
  for (const run::ComparedGroup& group : rows.groups) second += group.time[1];
  CHECK(second == matching.second_time);
  for (std::size_t side = 0; side < 2; ++side) {
    std::vector<std::int64_t> ops(rows.groups.size());
    for (const std::uint32_t group : rows.group_of[side]) ++ops[group];
    for (std::size_t g = 0; g < ops.size(); ++g) CHECK(ops[g] == rows.groups[g].ops[side]);
  }
}
