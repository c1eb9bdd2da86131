#include "core/compare/step_begins.h"

#include <algorithm>
#include <optional>

#include "core/run/replay.h"

namespace foregather::compare {
namespace {

// What an engine or an executor made has the strategy of its schedule, what was recorded has none.
bool was_recorded(run::RunView run) {
  return run.about.strategy.empty() || run.about.strategy == run::kReplay;
}

std::optional<Ns> end_of_step_before(run::RunView run, run::StepRow row) {
  const run::StepInfo& step = run.steps[row.row()];
  if (!was_recorded(run)) return step.begin;
  if (run.about.kind != run::RunKind::measured) return std::nullopt;
  for (const run::StepInfo& before : run.steps)
    if (before.rank_class == step.rank_class && before.number + 1 == step.number &&
        before.end <= step.end)
      return before.end;
  return std::nullopt;
}

Ns begin_of_work(run::RunView run, run::StepRow row) {
  const auto [first, last] = run::ops_of(run, row);
  if (was_recorded(run) || first == last) return run.steps[row.row()].begin;
  return *std::min_element(run.ops.start.begin() + static_cast<std::ptrdiff_t>(first),
                           run.ops.start.begin() + static_cast<std::ptrdiff_t>(last));
}

}  // namespace

std::pair<Ns, Ns> step_begins(run::RunView first, run::StepRow first_step, run::RunView second,
                              run::StepRow second_step) {
  const auto own = end_of_step_before(first, first_step);
  const auto other = end_of_step_before(second, second_step);
  if (own && other) return {*own, *other};
  return {begin_of_work(first, first_step), begin_of_work(second, second_step)};
}

}  // namespace foregather::compare
