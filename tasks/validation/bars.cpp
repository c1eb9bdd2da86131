#include "tasks/validation/bars.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "tasks/validation/pairs.h"
#include "tasks/validation/scaling.h"

namespace foregather::tasks {
namespace {

constexpr double kPeakBar = 0.03;
constexpr double kPeakWorstBar = 0.08;
constexpr double kTimeBar = 0.06;
constexpr double kTimeP90Bar = 0.15;
constexpr double kNcclLargeBar = 0.10;
constexpr double kNcclSmallBar = 0.25;
constexpr double kLeastCoverage = 0.85;
constexpr double kMostCoverage = 0.95;
constexpr double kTierACoverage = 0.9;
constexpr double kTierBCoverage = 0.6;
constexpr double kNcclTableBar = 0.25;
constexpr double kEmulatedBar = 0.05;

double coverage(const GroupFigures& figures) {
  return static_cast<double>(figures.predicted) / static_cast<double>(figures.n);
}

std::optional<bool> are_fits_right(const std::vector<RowResult>& rows) {
  std::optional<bool> right;
  for (const RowResult& row : rows) {
    const bool is_known = row.row.has_answer() || row.row.ran_out_of_memory();
    if (!is_known || !row.prediction.is_predicted()) continue;
    right = right.value_or(true) && (!row.is_wrong_fit() || row.prediction.is_close_call);
  }
  return right;
}

// Of the runs that the table notes as those an emulator with a profile of every kernel was held to.
std::optional<bool> are_emulated_runs_within(const std::vector<RowResult>& rows, double bar) {
  std::optional<bool> within;
  for (const RowResult& row : rows) {
    const auto error = row.time_error();
    if (!error || row.row.notes.find("PHANTORA-VAL") == std::string::npos) continue;
    within = within.value_or(true) && std::abs(*error) <= bar;
  }
  return within;
}

// Each table with sizes as large.
std::optional<bool> are_tables_within(const std::vector<NcclRow>& rows, double bar) {
  std::map<std::string, std::vector<NcclRow>> tables;
  for (const NcclRow& row : rows) tables[row.table].push_back(row);
  std::optional<bool> within;
  for (const auto& [table, of_table] : tables)
    if (const auto median = nccl_median(of_table, 1 * MiB, std::numeric_limits<Bytes>::max()))
      within = within.value_or(true) && *median <= bar;
  return within;
}

}  // namespace

std::vector<Bar> bars(const Validation& validation) {
  const GroupFigures a = figures_of(of_tier(validation.rows, "A"), true);
  const GroupFigures b = figures_of(of_tier(validation.rows, "B"), true);
  const auto within = [](const Spread& spread, double bar) {
    return spread.median ? std::optional(*spread.median <= bar) : std::nullopt;
  };
  const auto covers = [](const GroupFigures& figures, double bar) {
    return figures.n > 0 ? std::optional(coverage(figures) >= bar) : std::nullopt;
  };
  const auto holds = [&](std::optional<bool> (RowResult::*inside)() const) {
    const auto share = coverage_of(validation.rows, inside).share();
    return share ? std::optional(kLeastCoverage <= *share && *share <= kMostCoverage)
                 : std::nullopt;
  };
  const auto at_most = [](std::optional<double> error, double bar) {
    return error ? std::optional(*error <= bar) : std::nullopt;
  };
  const auto& nccl = validation.collectives;
  const PairCounts what_ifs = count_what_ifs(validation.rows);
  return {
      {"tier A, median time error at most 6 %", within(a.time, kTimeBar)},
      {"tier A, 90th percentile of the time error at most 15 %", at_most(a.time.p90, kTimeP90Bar)},
      {"tier A, median peak error at most 3 %", within(a.peak, kPeakBar)},
      {"tier A, worst peak error at most 8 %", at_most(a.peak.worst, kPeakWorstBar)},
      {"the TorchTitan steps that an emulator was held to (PHANTORA-VAL) within 5 %",
       are_emulated_runs_within(validation.rows, kEmulatedBar)},
      {"no wrong answer to \"does it fit?\" but close calls", are_fits_right(validation.rows)},
      {"intervals hold 85 to 95 % of step times", holds(&RowResult::time_inside)},
      {"intervals hold 85 to 95 % of peaks", holds(&RowResult::peak_inside)},
      {"collectives from 1 MiB on, median error at most 10 %",
       at_most(nccl_median(nccl, 1 * MiB, std::numeric_limits<Bytes>::max()), kNcclLargeBar)},
      {"collectives below 1 MiB, median error at most 25 %",
       at_most(nccl_median(nccl, 0, 1 * MiB), kNcclSmallBar)},
      {"collectives from 1 MiB on, median error of each table at most 25 %",
       are_tables_within(nccl, kNcclTableBar)},
      {"what-if pairs: every sign right", what_ifs.are_signs_right()},
      {"what-if pairs: every time within 2 points", what_ifs.are_times_within()},
      {"what-if pairs: every difference of memory within 20 %", what_ifs.are_memories_within()},
      {"scaling over GPUs: throughput within 10 %", find_scaling(validation.rows).are_within()},
      {"at least 90 % of tier A predicted", covers(a, kTierACoverage)},
      {"at least 60 % of tier B predicted", covers(b, kTierBCoverage)},
  };
}

}  // namespace foregather::tasks
