// What recomputing single blocks costs and saves, from schedules that are not simulated.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/base/result.h"
#include "sim/sweep/choice_rows.h"
#include "tasks/candidates.h"

namespace foregather::tasks {

/// What a schedule cannot go below, by stream and by launch.
struct BlockRows {
  std::vector<sim::ChoiceRow> busy;  ///< ns: of each stream and communicator
  std::vector<sim::ChoiceRow> live;  ///< bytes on the device: at launches that are in all schedules
};

/// Loads of the candidate that recomputes `recomputed`, busy at `clock` or at its own.
using LoadsOf = std::function<Result<ScheduleLoads>(const sim::Choice& recomputed,
                                                    std::optional<double> clock)>;

/// Over all sets of `blocks`. Each block's part is the difference that it makes alone. Kept are the
/// rows that are right of all blocks and of every second one, too: there the parts add up. Times
/// are those at the fastest clock of any set, so that no set is faster. Lowers blocks + 5
/// schedules, twice as many where blocks differ in what they do to the clock.
///
/// Errors: those of loads(); schedules whose other launches are not the same.
Result<BlockRows> block_rows(std::size_t blocks, const LoadsOf& loads);

}  // namespace foregather::tasks
