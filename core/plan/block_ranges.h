// Sets of blocks, as configurations name them: "0-3,7".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/plan/workload.h"

namespace foregather::plan {

/// Reads numbers and ranges, separated by commas. Errors have no place: no block, a text that is no
/// number, a range that runs backwards.
Result<std::vector<BlockRange>> read_block_ranges(std::string_view text);

/// Is the block recomputed as a whole? Selective every N blocks is torchtitan's rule: the Nth,
/// 2Nth, … block is.
bool is_recomputed(const Train& train, std::int64_t block);

/// The value of train.activation_checkpointing that recomputes these blocks: "none", "full" or
/// "blocks:0-3,7".
std::string checkpointing_of(const std::vector<bool>& recomputed);

}  // namespace foregather::plan
