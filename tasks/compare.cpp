#include "tasks/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/store/reader.h"

namespace foregather::tasks {
namespace {

double error_of(Ns first, Ns second) {
  return second == 0 ? 0 : static_cast<double>(first - second) / static_cast<double>(second);
}

std::optional<run::ClassRow> class_with(run::RunView run, std::uint32_t rank) {
  for (std::size_t c = 0; c < run.classes.size(); ++c) {
    const auto& ranks = run.classes[c].ranks;
    if (std::find(ranks.begin(), ranks.end(), rank) != ranks.end()) return run::ClassRow(c);
  }
  return std::nullopt;
}

Result<run::StepRow> chosen_step(run::RunView run, const std::string& location,
                                 run::ClassRow rank_class, std::optional<std::int64_t> step) {
  if (step && run.about.kind == run::RunKind::measured) {
    for (std::size_t s = 0; s < run.steps.size(); ++s)
      if (run.steps[s].rank_class == rank_class && run.steps[s].number == *step)
        return run::StepRow(s);
    return fail_at(location, "has no step {} of that rank", *step);
  }
  const run::StepRow row = compare::step_to_compare(run, rank_class);
  if (!row) return fail_at(location, "has no finished step to compare");
  return row;
}

ComparedSide side_of(run::RunView run, const std::string& location, std::uint32_t rank,
                     run::StepRow row) {
  const run::StepInfo& step = run.steps[row.row()];
  ComparedSide side;
  side.location = location;
  side.run = run.about.name;
  side.is_measured = run.about.kind == run::RunKind::measured;
  side.rank = rank;
  side.step = step.number;
  side.step_time = step.end - step.begin;
  side.busy = compare::busy_times(run, row);
  side.path = compare::critical_path(run, row);
  side.peak_allocated = step.peak_allocated;
  side.peak_reserved = step.peak_reserved;
  return side;
}

void fill_kinds(Comparison& comparison) {
  for (const compare::MatchedGroup& group : comparison.matching.groups) {
    if (group.level > compare::MatchLevel::scope_kind) continue;
    KindResidual& residual = comparison.by_kind[name(group.kind)];
    const double error = error_of(group.first_time, group.second_time);
    ++residual.n;
    residual.mape += std::abs(error);
    residual.bias += error;
    residual.first += group.first_time;
    residual.second += group.second_time;
  }
  for (auto& [kind, residual] : comparison.by_kind) {
    residual.mape /= static_cast<double>(residual.n);
    residual.bias /= static_cast<double>(residual.n);
  }
}

}  // namespace

double Comparison::step_time_error() const { return error_of(first.step_time, second.step_time); }

std::optional<double> Comparison::peak_memory_error() const {
  if (first.peak_reserved > 0 && second.peak_reserved > 0)
    return error_of(first.peak_reserved, second.peak_reserved);
  if (first.peak_allocated > 0 && second.peak_allocated > 0)
    return error_of(first.peak_allocated, second.peak_allocated);
  return std::nullopt;
}

std::vector<const compare::MatchedGroup*> most_changed(const Comparison& comparison,
                                                       std::size_t most) {
  std::vector<const compare::MatchedGroup*> groups;
  for (const compare::MatchedGroup& group : comparison.matching.groups)
    if (group.first_time != group.second_time) groups.push_back(&group);
  std::stable_sort(groups.begin(), groups.end(), [](const auto* a, const auto* b) {
    return std::abs(a->first_time - a->second_time) > std::abs(b->first_time - b->second_time);
  });
  groups.resize(std::min(most, groups.size()));
  return groups;
}

Result<Comparison> compare_runs(const std::string& first, const std::string& second,
                                std::optional<std::int64_t> step) {
  const auto a = store::read_run(first);
  if (!a) return tl::unexpected(a.error());
  const auto b = store::read_run(second);
  if (!b) return tl::unexpected(b.error());
  if (b->classes.empty() || a->classes.empty())
    return fail_at(a->classes.empty() ? first : second, "has no ranks to compare");
  Comparison comparison;
  const std::uint32_t rank = b->classes.front().ranks.front();
  auto own = class_with(*a, rank);
  if (!own) {
    own = run::ClassRow(0);
    comparison.warnings.push_back(
        fmt::format("{}: has no rank {}, which {} has: rank {} stands for it", first, rank, second,
                    a->classes.front().ranks.front()));
  }
  const auto first_step = chosen_step(*a, first, *own, step);
  if (!first_step) return tl::unexpected(first_step.error());
  const auto second_step = chosen_step(*b, second, run::ClassRow(0), step);
  if (!second_step) return tl::unexpected(second_step.error());
  comparison.first = side_of(*a, first, a->classes[own->row()].ranks.front(), *first_step);
  comparison.second = side_of(*b, second, rank, *second_step);
  comparison.matching = compare::match(*a, *first_step, *b, *second_step);
  if (comparison.first.is_measured && comparison.second.is_measured)
    comparison.kernels = compare::by_kernel(*a, *first_step, *b, *second_step);
  fill_kinds(comparison);
  return comparison;
}

}  // namespace foregather::tasks
