#include "tasks/validation/errors.h"

#include <algorithm>
#include <cmath>

namespace foregather::tasks {
namespace {

using ErrorOf = std::optional<double> (RowResult::*)() const;

Spread spread_of(const std::vector<const RowResult*>& rows, ErrorOf error_of, bool groups_equally) {
  std::map<std::string, std::size_t> compared;
  for (const RowResult* row : rows)
    if ((row->*error_of)()) ++compared[row->row.group];
  Spread spread;
  std::vector<std::pair<double, double>> errors;
  for (const RowResult* row : rows) {
    const auto error = (row->*error_of)();
    if (!error) continue;
    const double weight =
        groups_equally ? 1.0 / static_cast<double>(compared[row->row.group]) : 1.0;
    errors.emplace_back(std::abs(*error), weight);
    spread.worst = std::max(spread.worst.value_or(0), std::abs(*error));
  }
  spread.n = errors.size();
  spread.median = weighted_quantile(errors, 0.5);
  spread.p90 = weighted_quantile(errors, 0.9);
  return spread;
}

}  // namespace

std::optional<double> RowResult::time_error() const {
  if (!prediction.is_predicted() || !row.step_time_s) return std::nullopt;
  return static_cast<double>(prediction.step) / 1e9 / *row.step_time_s - 1;
}

std::optional<double> RowResult::peak_error() const {
  if (!prediction.is_predicted() || !prediction.peak || !row.peak_gib) return std::nullopt;
  return static_cast<double>(*prediction.peak) / static_cast<double>(GiB) / *row.peak_gib - 1;
}

std::optional<bool> RowResult::time_inside() const {
  if (!time_error()) return std::nullopt;
  const double published = *row.step_time_s * 1e9;
  return static_cast<double>(prediction.step_range.first) <= published &&
         published <= static_cast<double>(prediction.step_range.second);
}

std::optional<bool> RowResult::peak_inside() const {
  if (!peak_error()) return std::nullopt;
  const double published = *row.peak_gib * static_cast<double>(GiB);
  return static_cast<double>(prediction.peak_range.first) <= published &&
         published <= static_cast<double>(prediction.peak_range.second);
}

Coverage coverage_of(const std::vector<RowResult>& rows,
                     std::optional<bool> (RowResult::*inside)() const) {
  Coverage coverage;
  for (const RowResult& row : rows) {
    const auto is_inside = (row.*inside)();
    coverage.n += is_inside ? 1 : 0;
    coverage.inside += is_inside.value_or(false) ? 1 : 0;
  }
  return coverage;
}

bool RowResult::is_wrong_fit() const {
  if (!prediction.is_predicted()) return false;
  return prediction.fits ? row.ran_out_of_memory() : row.has_answer();
}

std::optional<double> weighted_quantile(std::vector<std::pair<double, double>> values,
                                        double share) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  double total = 0;
  for (const auto& [value, weight] : values) total += weight;
  constexpr double kRounding = 1e-9;
  double below = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    below += values[i].second;
    const double over = below - share * total;
    if (over < -kRounding * total) continue;
    if (over > kRounding * total || i + 1 == values.size()) return values[i].first;
    return (values[i].first + values[i + 1].first) / 2;
  }
  return values.back().first;
}

GroupFigures figures_of(const std::vector<const RowResult*>& rows, bool groups_equally) {
  GroupFigures figures;
  figures.n = rows.size();
  for (const RowResult* row : rows) figures.predicted += row->prediction.is_predicted() ? 1 : 0;
  figures.time = spread_of(rows, &RowResult::time_error, groups_equally);
  figures.peak = spread_of(rows, &RowResult::peak_error, groups_equally);
  return figures;
}

std::map<std::string, std::vector<const RowResult*>> by_group(const std::vector<RowResult>& rows) {
  std::map<std::string, std::vector<const RowResult*>> groups;
  for (const RowResult& row : rows) groups[row.row.group].push_back(&row);
  return groups;
}

std::vector<const RowResult*> of_tier(const std::vector<RowResult>& rows, const std::string& tier) {
  std::vector<const RowResult*> found;
  for (const RowResult& row : rows)
    if (row.row.tier == tier) found.push_back(&row);
  return found;
}

}  // namespace foregather::tasks
