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

/// What was measured of each set.
struct MeasuredSets {
  std::vector<Measured> busy, live;
  std::vector<double> clocks;
};

Result<MeasuredSets> measure(const std::vector<sim::Choice>& sets, double clock,
                             const LoadsOf& loads) {
  MeasuredSets measured;
  std::vector<ScheduledLaunch> launches;
  for (const sim::Choice& set : sets) {
    auto each = loads(set, clock);
    if (!each) return tl::unexpected(each.error());
    if (measured.busy.empty())
      launches = std::move(each->launches);
    else if (each->launches != launches || each->busy.size() != measured.busy.front().size())
      return fail("recomputing a block changes what else is launched");
    measured.busy.push_back(std::move(each->busy));
    measured.live.push_back(std::move(each->live));
    measured.clocks.push_back(each->clock);
  }
  return measured;
}

}  // namespace

Result<BlockRows> block_rows(std::size_t blocks, const LoadsOf& loads) {
  std::vector<sim::Choice> sets{sim::Choice(blocks), sim::Choice(blocks, true),
                                sim::Choice(blocks)};
  for (std::size_t i = 1; i < blocks; i += 2) sets.back()[i] = true;
  constexpr std::ptrdiff_t kSingles = 3;
  for (std::size_t i = 0; i < blocks; ++i) {
    sets.emplace_back(blocks);
    sets.back()[i] = true;
  }
  double fastest = 0;
  for (const sim::Choice& extreme : {sets[0], sets[1]}) {
    const auto own = loads(extreme, std::nullopt);
    if (!own) return tl::unexpected(own.error());
    fastest = std::max(fastest, own->clock);
  }
  auto measured = measure(sets, fastest, loads);
  if (!measured) return tl::unexpected(measured.error());
  // Blocks that are alike move the clock one way, from none of them to all; others by any mixture.
  const auto single = measured->clocks.begin() + kSingles;
  constexpr double kBoost = 1;
  if (std::any_of(single, measured->clocks.end(), [&](double clock) { return clock != *single; }))
    measured = measure(sets, kBoost, loads);
  if (!measured) return tl::unexpected(measured.error());
  const auto rows = [&](const std::vector<Measured>& of) {
    return sums_of(of[0], {of.begin() + kSingles, of.end()}, {{sets[1], of[1]}, {sets[2], of[2]}});
  };
  return BlockRows{rows(measured->busy), rows(measured->live)};
}

}  // namespace foregather::tasks
