#include "sim/sweep/choice_rows.h"

#include <algorithm>

namespace foregather::sim {
namespace {

std::int64_t largest_value(const std::vector<ChoiceRow>& rows, const Choice& choice) {
  std::int64_t largest = 0;
  for (const ChoiceRow& row : rows) largest = std::max(largest, row.value(choice));
  return largest;
}

bool is_nowhere_above(const ChoiceRow& row, const ChoiceRow& other) {
  return row.base <= other.base && std::ranges::equal(row.parts, other.parts, std::less_equal());
}

}  // namespace

std::int64_t ChoiceRow::value(const Choice& choice) const {
  std::int64_t sum = base;
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (choice[i]) sum += parts[i];
  return sum;
}

Judgement floor_of(const ChoiceRows& rows, const Choice& choice) {
  Judgement floor;
  floor.cost = largest_value(rows.cost, choice);
  if (!rows.need.empty())
    floor.excess = std::max<std::int64_t>(largest_value(rows.need, choice) - rows.limit, 0);
  return floor;
}

std::vector<ChoiceRow> without_dominated(std::vector<ChoiceRow> rows) {
  std::ranges::stable_sort(rows, std::ranges::greater(), &ChoiceRow::base);
  std::vector<ChoiceRow> kept;
  for (ChoiceRow& row : rows) {
    const bool is_dominated = std::ranges::any_of(
        kept, [&](const ChoiceRow& other) { return is_nowhere_above(row, other); });
    if (!is_dominated) kept.push_back(std::move(row));
  }
  return kept;
}

}  // namespace foregather::sim
