#include "core/rebuild/job.h"

#include <algorithm>
#include <set>

namespace foregather::rebuild {
namespace {

/// Times of recordings go as far: 73 years.
constexpr Ns kLatestEpoch = Ns{1} << 61;

}  // namespace

std::uint32_t world_size_of(std::span<const run::Recording* const> recordings,
                            std::span<const std::uint32_t> ranks) {
  std::uint32_t size = static_cast<std::uint32_t>(recordings.size());
  for (const run::Recording* recording : recordings)
    size = std::max(size, recording->world_size.value_or(1));
  for (const std::uint32_t rank : ranks) size = std::max(size, rank + 1);
  return size;
}

std::vector<Ns> epochs_of(std::span<const run::Recording* const> recordings) {
  std::vector<Ns> epochs;
  for (const run::Recording* recording : recordings) epochs.push_back(recording->base);
  const auto is_known = [](Ns epoch) { return epoch > 0 && epoch <= kLatestEpoch; };
  if (!std::all_of(epochs.begin(), epochs.end(), is_known)) epochs.assign(epochs.size(), 0);
  return epochs;
}

Result<std::vector<std::uint32_t>> ranks_of(std::span<const run::Recording* const> recordings) {
  std::set<std::uint32_t> taken;
  for (const run::Recording* recording : recordings)
    if (recording->rank && !taken.insert(*recording->rank).second)
      return fail_at(recording->source, "is of rank {}, as another file is: expected one a rank",
                     *recording->rank);
  std::vector<std::uint32_t> ranks;
  std::uint32_t spare = 0;
  for (const run::Recording* recording : recordings) {
    if (!recording->rank)
      while (!taken.insert(spare).second) ++spare;
    ranks.push_back(recording->rank.value_or(spare));
  }
  return ranks;
}

}  // namespace foregather::rebuild
