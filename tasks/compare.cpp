#include "tasks/compare.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/compare/caveats.h"
#include "core/compare/replayed.h"
#include "core/compare/step_begins.h"
#include "core/run/key.h"
#include "core/store/writer.h"
#include "tasks/any_run.h"
#include "tasks/device_hardware.h"
#include "tasks/outputs.h"
#include "tasks/recorded_source.h"

namespace foregather::tasks {
namespace {

constexpr std::size_t kLongestListed = 100;

double error_of(Ns first, Ns second) {
  return second == 0 ? 0 : static_cast<double>(first - second) / static_cast<double>(second);
}

std::vector<std::uint32_t> numbers_of(run::RunView run, run::ClassRow rank_class) {
  std::vector<std::uint32_t> numbers;
  for (const run::StepInfo& info : run.steps)
    if (info.rank_class == rank_class) numbers.push_back(info.number);
  return numbers;
}

Result<run::StepRow> chosen_step(run::RunView run, const std::string& location,
                                 run::ClassRow rank_class, std::optional<std::int64_t> step) {
  const run::StepRow row = compare::step_to_compare(run, rank_class, step);
  if (!row) return fail_at(location, "has no finished step to compare");
  if (step && run.about.kind == run::RunKind::measured && run.steps[row.row()].number != *step)
    return fail_at(location, "has no step {} of that rank, expected one of {}", *step,
                   fmt::join(numbers_of(run, rank_class), ", "));
  const run::OpSpan ops = run::ops_of(run, row);
  const bool has_memory = compare::memory_at_peak(run, row).total() > 0;
  if (ops.first == ops.last && !has_memory && !compare::is_cut_short(run, row))
    return fail_at(location, "has neither device work nor memory in step {} to compare",
                   run.steps[row.row()].number);
  return row;
}

// The step of measured runs to compare: as asked, else as one side replays it. Where a side replays
// all steps of a recording as one, those of the other become one.
Result<std::optional<std::int64_t>> agree_on_step(const CompareRequest& request, AnyRun& a,
                                                  AnyRun& b, std::vector<std::string>& warnings) {
  std::optional<std::int64_t> step = request.step;
  const auto has_steps = [](const AnyRun& any) {
    return any.run.about.kind == run::RunKind::measured || compare::replayed_step(any.run);
  };
  if (step && !has_steps(a) && !has_steps(b))
    return fail_at("--step", "chooses a step of a measured run, and both sides are predicted");
  const auto agree = [&](const AnyRun& any, const std::string& location, AnyRun& other,
                         const std::string& other_location) -> Status {
    const auto replayed = compare::replayed_step(any.run);
    if (!step) step = replayed;
    if (replayed && step != replayed)
      warnings.push_back(fmt::format("{}: predicts step {} of a recording, not step {}", location,
                                     *replayed, *step));
    if (!compare::meets_all_steps(any.run, other.run)) return {};
    if (request.step)
      return fail_at(location,
                     "predicts all steps of a recording as one, expected the prediction of step "
                     "{0}: simulate --step {0}",
                     *request.step);
    compare::join_steps(other.run);
    warnings.push_back(fmt::format(
        "{}: all its steps are compared as one, as {} predicts them: 'simulate --step N' "
        "predicts one",
        other_location, location));
    return {};
  };
  if (const Status agreed = agree(a, request.first, b, request.second); !agreed)
    return tl::unexpected(agreed.error());
  if (const Status agreed = agree(b, request.second, a, request.first); !agreed)
    return tl::unexpected(agreed.error());
  return step;
}

void fill_path(run::RunView run, ComparedSide& side) {
  for (const compare::PathStep& step : side.path.steps) {
    side.path_kinds[name(run.ops.kind[step.op.row()])] += step.time;
    side.path_reasons[name(step.reason)] += step.gap - step.beside;
    side.path_reasons["host_beside_work"] += step.beside;
  }
  for (const compare::PathStep& step : side.path.longest(kLongestListed))
    side.path_longest.push_back(
        {run::op_key(run, step.op), run.ops.kind[step.op.row()], step.reason, step.time, step.gap});
}

ComparedSide side_of(run::RunView run, const std::string& location, std::uint32_t rank,
                     run::StepRow row, Ns begin) {
  const run::StepInfo& step = run.steps[row.row()];
  ComparedSide side;
  side.location = location;
  side.run = run.about.name;
  side.is_measured = run.about.kind == run::RunKind::measured;
  side.rank = rank;
  side.step = step.number;
  side.is_cut = compare::is_cut_short(run, row);
  side.busy = compare::busy_times(run, row);
  side.knows_waits = compare::knows_waits(run, side.busy);
  if (side.busy.ops > 0) {
    side.step_time = step.end - begin;
    side.path = compare::critical_path(run, row, begin);
    fill_path(run, side);
  }
  side.peak_allocated = step.peak_allocated;
  side.peak_reserved = step.peak_reserved;
  side.memory = compare::memory_at_peak(run, row);
  return side;
}

void add(const compare::MatchedGroup& group, Residual& residual) {
  const double error = error_of(group.first_time, group.second_time);
  ++residual.n;
  residual.mape += std::abs(error);
  residual.bias += error;
  residual.first += group.first_time;
  residual.second += group.second_time;
}

void finish(std::map<std::string, Residual>& residuals) {
  for (auto& [key, residual] : residuals) {
    residual.mape /= static_cast<double>(residual.n);
    residual.bias /= static_cast<double>(residual.n);
  }
}

void fill_residuals(Comparison& comparison) {
  std::array<Residual, compare::kOpKinds> kinds{};
  std::vector<Residual> scopes(comparison.matching.strings.size());
  for (const compare::MatchedGroup& group : comparison.matching.met()) {
    if (group.level <= compare::MatchLevel::scope_kind)
      add(group, kinds[static_cast<std::size_t>(group.kind)]);
    if (group.scope) add(group, scopes[group.scope.row()]);
  }
  for (std::size_t kind = 0; kind < kinds.size(); ++kind)
    if (kinds[kind].n > 0) comparison.by_kind.emplace(name(static_cast<OpKind>(kind)), kinds[kind]);
  for (std::size_t scope = 0; scope < scopes.size(); ++scope) {
    if (scopes[scope].n == 0) continue;
    const std::string_view text = comparison.matching.strings.text(StringId(scope));
    comparison.by_scope.emplace(text.empty() ? "-" : text, scopes[scope]);
  }
  finish(comparison.by_kind);
  finish(comparison.by_scope);
}

/// Which classes of the two runs meet.
struct Chosen {
  std::array<run::ClassRow, 2> classes;
  std::array<std::uint32_t, 2> ranks{};
};

Result<run::ClassRow> asked_class(const AnyRun& any, const std::string& location,
                                  std::uint32_t rank) {
  const auto found = compare::class_of_rank(any.run, rank);
  if (found) return *found;
  std::vector<std::string> known;
  for (const run::ClassInfo& info : any.run.classes)
    known.push_back(std::to_string(info.ranks.front()));
  return fail_at(location, "has no rank {}, expected one such as {}", rank, fmt::join(known, ", "));
}

Result<Chosen> choose(const CompareRequest& request, const AnyRun& a, const AnyRun& b,
                      std::vector<std::string>& warnings) {
  Chosen chosen;
  if (a.run.classes.empty() || b.run.classes.empty())
    return fail_at(a.run.classes.empty() ? request.first : request.second,
                   "has no ranks to compare");
  if (request.ranks) {
    chosen.ranks = *request.ranks;
    const auto first = asked_class(a, request.first, chosen.ranks[0]);
    if (!first) return tl::unexpected(first.error());
    const auto second = asked_class(b, request.second, chosen.ranks[1]);
    if (!second) return tl::unexpected(second.error());
    chosen.classes = {*first, *second};
    return chosen;
  }
  const std::uint32_t rank = b.run.classes.front().ranks.front();
  const auto own = compare::class_of_rank(a.run, rank);
  if (!own)
    warnings.push_back(fmt::format("{}: has no rank {}, which {} has: rank {} stands for it",
                                   request.first, rank, request.second,
                                   a.run.classes.front().ranks.front()));
  chosen.classes = {own.value_or(run::ClassRow(0)), run::ClassRow(0)};
  chosen.ranks = {a.run.classes[chosen.classes[0].row()].ranks.front(), rank};
  return chosen;
}

// Both runs, once if they are one, and how their ops met.
Status store(const CompareRequest& request, AnyRun& a, AnyRun& b, const compare::Matching& matching,
             std::array<run::StepRow, 2> steps) {
  for (const AnyRun* any : {&a, &b})
    if (Status apart = check_outputs({request.database}, any->inputs); !apart) return apart;
  auto writer = store::RunWriter::create(request.database);
  if (!writer) return tl::unexpected(writer.error());
  if (Status written = writer->write(a.run); !written) return written;
  const bool is_one = request.first == request.second;
  if (!is_one) {
    if (b.run.about.name == a.run.about.name) b.run.about.name += "-2";
    if (Status written = writer->write(b.run); !written) return written;
  }
  if (Status written = writer->write(
          compare::comparison_rows(matching, {a.run.about.name, b.run.about.name}, steps));
      !written)
    return written;
  return writer->finish();
}

}  // namespace

double Residual::error() const { return error_of(first, second); }

std::optional<double> Comparison::step_time_error() const {
  if (!has_times()) return std::nullopt;
  return error_of(first.step_time, second.step_time);
}

std::optional<double> Comparison::peak_memory_error() const {
  if (first.peak_reserved > 0 && second.peak_reserved > 0)
    return error_of(first.peak_reserved, second.peak_reserved);
  if (first.peak_allocated > 0 && second.peak_allocated > 0)
    return error_of(first.peak_allocated, second.peak_allocated);
  return std::nullopt;
}

std::vector<const compare::MatchedGroup*> most_changed(const Comparison& comparison) {
  std::vector<const compare::MatchedGroup*> groups;
  for (const compare::MatchedGroup& group : comparison.matching.met())
    if (group.difference() != 0) groups.push_back(&group);
  std::stable_sort(groups.begin(), groups.end(), [](const auto* a, const auto* b) {
    return std::abs(a->difference()) > std::abs(b->difference());
  });
  return groups;
}

std::vector<std::pair<std::string, Residual>> most_changed(
    const std::map<std::string, Residual>& residuals) {
  std::vector<std::pair<std::string, Residual>> changed;
  for (const auto& row : residuals)
    if (row.second.first != row.second.second) changed.emplace_back(row);
  std::stable_sort(changed.begin(), changed.end(), [](const auto& a, const auto& b) {
    return std::abs(a.second.first - a.second.second) > std::abs(b.second.first - b.second.second);
  });
  return changed;
}

Result<Comparison> compare_runs(const CompareRequest& request) {
  auto a = load_any_run(request.first);
  if (!a) return tl::unexpected(a.error());
  auto b = load_any_run(request.second);
  if (!b) return tl::unexpected(b.error());
  Comparison comparison;
  comparison.warnings = a->warnings;
  if (request.first != request.second)
    comparison.warnings.insert(comparison.warnings.end(), b->warnings.begin(), b->warnings.end());
  for (const auto& [any, location] :
       {std::pair(&*a, &request.first), std::pair(&*b, &request.second)})
    if (auto warning = warning_of(any->run.about.dropped, *location))
      if (std::ranges::find(comparison.warnings, *warning) == comparison.warnings.end())
        comparison.warnings.push_back(std::move(*warning));
  const auto step = agree_on_step(request, *a, *b, comparison.warnings);
  if (!step) return tl::unexpected(step.error());
  const auto chosen = choose(request, *a, *b, comparison.warnings);
  if (!chosen) return tl::unexpected(chosen.error());
  const auto first = chosen_step(a->run, request.first, chosen->classes[0], *step);
  if (!first) return tl::unexpected(first.error());
  const auto second = chosen_step(b->run, request.second, chosen->classes[1], *step);
  if (!second) return tl::unexpected(second.error());
  const auto [first_begin, second_begin] = compare::step_begins(a->run, *first, b->run, *second);
  comparison.first = side_of(a->run, request.first, chosen->ranks[0], *first, first_begin);
  comparison.second = side_of(b->run, request.second, chosen->ranks[1], *second, second_begin);
  for (const ComparedSide* side : {&comparison.first, &comparison.second})
    if (side->is_cut)
      comparison.warnings.push_back(
          fmt::format("{}: ran out of memory in the step: no times to compare, peaks up to there",
                      side->location));
  const auto machine = hardware_of_device(a->run.about.hardware);
  const auto other_machine = hardware_of_device(b->run.about.hardware);
  for (std::string& caveat : compare::caveats(
           {a->run, *first, first_begin, comparison.first.busy, request.first, machine},
           {b->run, *second, second_begin, comparison.second.busy, request.second, other_machine}))
    comparison.warnings.push_back(std::move(caveat));
  if (comparison.first.memory.is_inferred || comparison.second.memory.is_inferred)
    for (ComparedSide* side : {&comparison.first, &comparison.second})
      compare::fold_as_inferred(side->memory);
  comparison.matching = compare::match(a->run, *first, b->run, *second);
  if (comparison.first.is_measured && comparison.second.is_measured)
    comparison.kernels = compare::by_kernel(a->run, *first, b->run, *second);
  fill_residuals(comparison);
  if (!request.database.empty())
    if (const Status stored = store(request, *a, *b, comparison.matching, {*first, *second});
        !stored)
      return tl::unexpected(stored.error());
  return comparison;
}

}  // namespace foregather::tasks
