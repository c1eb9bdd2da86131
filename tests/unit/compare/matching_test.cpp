#include <catch2/catch.hpp>

#include "core/compare/by_kernel.h"
#include "core/compare/critical_path.h"
#include "core/compare/matching.h"
#include "core/compare/replayed.h"
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
  // Its host ran ahead: nothing of it was there yet.
  run.add(run::StepInfo(run.steps[0]));
  CHECK(step_to_compare(run, run::ClassRow(0)) == run::StepRow(0));
}

TEST_CASE("of a run that was cut short the step to compare is the last that all ranks ended") {
  run::Run run = test::example_run();
  for (run::StepInfo& step : run.steps) step.kind = run::StepKind::other;
  const auto add_step = [&](std::size_t like, std::uint32_t number) {
    run::StepInfo step = run.steps[like];
    step.number = number;
    run::OpRecord op = run.ops.at(run::OpRow(0));
    op.step = run.add(step);
    run.add(op);
    return op.step;
  };
  const std::uint32_t number = run.steps[0].number;
  const run::StepRow second = add_step(0, number + 1), other = add_step(1, number + 1);
  const run::StepRow third = add_step(0, number + 2);
  CHECK(step_to_compare(run, run::ClassRow(0)) == third);
  run.about.state = run::RunState::under_way;
  CHECK(step_to_compare(run, run::ClassRow(0)) == run::StepRow(0));
  CHECK(step_to_compare(run, run::ClassRow(1)) == run::StepRow(1));
  add_step(1, number + 2);
  CHECK(step_to_compare(run, run::ClassRow(0)) == second);
  CHECK(step_to_compare(run, run::ClassRow(1)) == other);
}

TEST_CASE("all steps of a recording as one") {
  run::Run run = test::example_run();
  run.about.kind = run::RunKind::measured;
  run::RunView view = run;
  const run::Run once = run;
  // The same step again, 100 later and with a larger peak, before the step of the other class.
  run::StepInfo again = run.steps[0];
  again.number = 2;
  for (Ns* time : {&again.begin, &again.end, &again.host_end}) *time += 100;
  again.peak_allocated = 4096;
  const run::StepRow next = run.add(again);
  for (std::size_t i = 0; i < 3; ++i) {
    run::OpRecord op = once.ops.at(run::OpRow(i));
    op.step = next;
    for (Ns* time : {&op.issued, &op.start, &op.transfer, &op.end}) *time += 100;
    if (i == 0) {
      op.reason = run::BoundReason::stream;
      op.bound_by = {};
      op.bound_by_previous_step = true;
    } else {
      op.bound_by = run::OpRow(6 + i - 1);
    }
    run.add(op);
  }
  run.bindings[0].still_bound = true;
  run::BindingRecord kept = run.bindings[0];
  kept.step = next;
  kept.from_before = true;
  kept.still_bound = false;
  kept.freed = 230;
  run.add(kept);
  run::BindingRecord fresh = kept;
  fresh.from_before = false;
  run.add(fresh);
  run.add(run::CauseRecord{next, Cause::activation, 4096});
  run::sort_steps(run);
  REQUIRE(view.steps.size() == 3);

  join_steps(run);
  REQUIRE(view.steps.size() == 2);
  CHECK(view.steps[0].number == 1);
  CHECK(view.steps[0].begin == 90);
  CHECK(view.steps[0].end == 250);
  CHECK(view.steps[0].host_end == 220);
  CHECK(view.steps[0].peak_allocated == 4096);
  CHECK(view.steps[0].peak_reserved == 2048);
  CHECK(view.steps[1].end == once.steps[1].end);
  const auto [first, last] = run::ops_of(run, run::StepRow(0));
  REQUIRE(last - first == 6);
  // Scopes attn and mlp hold one gemm a step.
  CHECK(std::vector(view.ops.ordinal.begin(), view.ops.ordinal.begin() + 6) ==
        std::vector<std::uint32_t>{0, 0, 0, 1, 1, 1});
  CHECK(view.ops.bound_by[3] == run::OpRow(2));  // what ended last on its stream
  CHECK(critical_path(run, run::StepRow(0)).steps.size() > 3);
  REQUIRE(view.bindings.size() == 2);
  CHECK(view.bindings[0].freed == 230);
  CHECK_FALSE(view.bindings[0].still_bound);
  REQUIRE(view.causes.size() == 1);
  CHECK(view.causes[0].cause == Cause::activation);
  CHECK(view.causes[0].step == run::StepRow(0));
}

TEST_CASE("which steps of a recording a prediction stands for") {
  run::Run run = test::example_run();
  CHECK_FALSE(replays_all_steps(run));
  run.about.strategy = run::kReplay;
  CHECK(replays_all_steps(run));
  CHECK_FALSE(replayed_step(run));
  run.about.options = "--step 12\n--what-if ideal\n";
  CHECK_FALSE(replays_all_steps(run));
  CHECK(replayed_step(run) == 12);
  run.about.kind = run::RunKind::measured;
  CHECK_FALSE(replayed_step(run));
  CHECK(step_to_compare(run, run::ClassRow(1), 1) == run::StepRow(1));
  run.steps[1].number = 3;
  CHECK(step_to_compare(run, run::ClassRow(1), 3) == run::StepRow(1));
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
