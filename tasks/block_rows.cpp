#include "tasks/block_rows.h"

#include <algorithm>

namespace foregather::tasks {
namespace {

using Measured = std::vector<std::int64_t>;

// Rows from what was measured of no block, of each block alone, and of the sets that check them.
std::vector<sim::ChoiceRow> sums_of(const Measured& none, const std::vector<Measured>& alone,
                                    const std::vector<std::pair<sim::Choice, Measured>>& checks) {
  std::vector<sim::ChoiceRow> rows;
  for (std::size_t at = 0; at < none.size(); ++at) {
    sim::ChoiceRow row{none[at], {}};
    for (const Measured& values : alone) row.parts.push_back(values[at] - none[at]);
    if (std::ranges::all_of(
            checks, [&](const auto& check) { return row.value(check.first) == check.second[at]; }))
      rows.push_back(std::move(row));
  }
  return sim::without_dominated(std::move(rows));
}

}  // namespace

Result<BlockRows> block_rows(
    std::size_t blocks,
    const std::function<Result<ScheduleLoads>(const sim::Choice& recomputed)>& loads) {
  std::vector<sim::Choice> sets{sim::Choice(blocks), sim::Choice(blocks, true),
                                sim::Choice(blocks)};
  for (std::size_t i = 1; i < blocks; i += 2) sets.back()[i] = true;
  for (std::size_t i = 0; i < blocks; ++i) {
    sets.emplace_back(blocks);
    sets.back()[i] = true;
  }
  std::vector<Measured> busy, live;
  std::vector<ScheduledLaunch> launches;
  for (const sim::Choice& set : sets) {
    auto each = loads(set);
    if (!each) return tl::unexpected(each.error());
    if (busy.empty())
      launches = std::move(each->launches);
    else if (each->launches != launches || each->busy.size() != busy.front().size())
      return fail("recomputing a block changes what else is launched");
    busy.push_back(std::move(each->busy));
    live.push_back(std::move(each->live));
  }
  constexpr std::ptrdiff_t kSingles = 3;
  const auto rows = [&](const std::vector<Measured>& measured) {
    return sums_of(measured[0], {measured.begin() + kSingles, measured.end()},
                   {{sets[1], measured[1]}, {sets[2], measured[2]}});
  };
  return BlockRows{rows(busy), rows(live)};
}

}  // namespace foregather::tasks
