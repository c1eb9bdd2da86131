// Which blocks a workload recomputes: a search among all sets of them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/sweep/choice_search.h"
#include "tasks/search.h"
#include "tasks/search_judge.h"

namespace foregather::tasks {

/// The key whose values name sets of blocks.
inline constexpr std::string_view kBlocksKey = "train.activation_checkpointing";

struct FoundBlocks {
  BlockSearch search;
  std::optional<run::SweepPoint> best;  ///< that beats the grid's; its index is -1
};

/// With the other settings of the grid's points: of all of them, or, where these are more than 64,
/// of the best points that were judged. Rows of what blocks add and save (tasks/block_rows.h) rule
/// sets out and bound all of them.
///
/// Errors: a model without repeated blocks; those of the judge.
Result<FoundBlocks> search_blocks(const SweepGrid& grid, const SearchRequest& request,
                                  SimulatorJudge& judge, const sim::SearchOutcome& outcome);

}  // namespace foregather::tasks
