#include "core/plan/block_ranges.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/plan/key_values.h"
#include "core/plan/workload_setters.h"

namespace foregather::plan {
namespace {

Result<BlockRange> read_range(std::string_view text) {
  const auto number = [](std::string_view digits) {
    return to_integer({std::string(digits), true}, 0, kMostBlocks);
  };
  const auto dash = text.find('-', 1);  // a sign is no range
  const auto first = number(text.substr(0, dash));
  if (!first) return tl::unexpected(first.error());
  if (dash == text.npos) return BlockRange{*first, *first};
  const auto last = number(text.substr(dash + 1));
  if (!last) return tl::unexpected(last.error());
  if (*last < *first) return fail("'{}' runs backwards, expected {}-{}", text, *last, *first);
  return BlockRange{*first, *last};
}

}  // namespace

Result<std::vector<BlockRange>> read_block_ranges(std::string_view text) {
  std::vector<BlockRange> ranges;
  for (;;) {
    const auto comma = text.find(',');
    const auto range = read_range(text.substr(0, comma));
    if (!range)
      return fail("{}: blocks are numbers and ranges, for example 'blocks:0-3,7'",
                  range.error().message);
    ranges.push_back(*range);
    if (comma == text.npos) return ranges;
    text.remove_prefix(comma + 1);
  }
}

bool is_recomputed(const Train& train, std::int64_t block) {
  switch (train.checkpointing) {
    case Checkpointing::none:
    case Checkpointing::selective_op: return false;
    case Checkpointing::full: return true;
    case Checkpointing::selective_layers: return (block + 1) % train.checkpoint_every == 0;
    case Checkpointing::first_layers: return block < train.checkpoint_first;
    case Checkpointing::named_layers:
      return std::ranges::any_of(train.checkpoint_blocks, [block](const BlockRange& range) {
        return range.first <= block && block <= range.last;
      });
  }
  return false;
}

std::string checkpointing_of(const std::vector<bool>& recomputed) {
  std::string list;
  for (std::size_t block = 0; block < recomputed.size(); ++block) {
    if (!recomputed[block]) continue;
    const std::size_t first = block;
    while (block + 1 < recomputed.size() && recomputed[block + 1]) ++block;
    if (first == 0 && block + 1 == recomputed.size()) return "full";
    list += list.empty() ? "blocks:" : ",";
    list += first == block ? fmt::format("{}", first) : fmt::format("{}-{}", first, block);
  }
  return list.empty() ? "none" : list;
}

}  // namespace foregather::plan
