// What sets of yes-or-no choices cannot go below, where what each choice adds is known.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/sweep/search.h"

namespace foregather::sim {

/// By number: is it chosen?
using Choice = std::vector<bool>;

/// A sum: `base`, and the parts of what is chosen.
struct ChoiceRow {
  std::int64_t base = 0;
  std::vector<std::int64_t> parts;  ///< by choice
  std::int64_t value(const Choice& choice) const;
  friend bool operator==(const ChoiceRow&, const ChoiceRow&) = default;
};

struct ChoiceRows {
  std::size_t choices = 0;
  std::vector<ChoiceRow> cost;  ///< a set costs at least the largest of them; empty: not known
  std::vector<ChoiceRow> need;  ///< and needs at least the largest of these
  std::int64_t limit = 0;       ///< of what it needs
};

/// What a set needs beyond the limit, and costs, at least.
Judgement floor_of(const ChoiceRows& rows, const Choice& choice);

/// Without rows that are nowhere above another one of them. Rows² × choices in the worst case.
std::vector<ChoiceRow> without_dominated(std::vector<ChoiceRow> rows);

}  // namespace foregather::sim
