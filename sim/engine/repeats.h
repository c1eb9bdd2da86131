// Where a host thread does the same again and again: the blocks of a model, one after the other.
#pragma once

#include <array>
#include <span>
#include <utility>
#include <vector>

#include "core/ir/graph.h"

namespace foregather::sim {

/// Consecutive periods of actions of one section. Each launches ops of the same costs on the same
/// streams, in which rows of ops grow by `ops` from period to period, and its waits mean the same
/// records, counted back from the period's own; or records from before the first period.
struct Repeat {
  std::uint32_t begin = 0;    ///< first action of the first period
  std::uint32_t period = 0;   ///< actions
  std::uint32_t count = 0;    ///< periods
  std::uint32_t ops = 0;      ///< launched in a period
  std::uint32_t records = 0;  ///< events that the device records in a period
  std::uint32_t back = 0;     ///< records that a wait looks back at most
  Range rows;                 ///< of the ops of all periods, and none else
  /// Of record actions: offset in the period, and which of the period's events it is.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> recorded;
  std::vector<std::uint32_t> outside;  ///< offsets of waits for records from before
  friend bool operator==(const Repeat&, const Repeat&) = default;
};

/// Of each section of each thread of a program. What a section does as the one before did is not
/// looked for again. Follows from actions_signature() and launches_signature().
using ProgramRepeats = std::vector<std::array<std::vector<Repeat>, kSections>>;
ProgramRepeats find_repeats(const Graph& graph, const Program& program);

/// In order, apart from each other. Attention and collectives mark where blocks may begin. Periods
/// hold no waits for other threads. Cost: linear in the actions.
std::vector<Repeat> find_repeats(const Graph& graph, const Program& program,
                                 std::span<const Action> actions);

}  // namespace foregather::sim
