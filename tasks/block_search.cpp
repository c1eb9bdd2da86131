#include "tasks/block_search.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <set>

#include "core/plan/block_ranges.h"
#include "sim/sweep/choice_program.h"
#include "tasks/block_rows.h"

namespace foregather::tasks {
namespace {

constexpr std::int64_t kMostSets = 128;  // simulated by the local search
constexpr std::int64_t kMostNamed = 16;  // and of those that the solver names
constexpr std::int64_t kProvedBlocks = 10;
constexpr std::size_t kMostSettings = 64;
constexpr std::int64_t kNoPoint = -1;

// Combinations of the other keys' values.
std::size_t settings_of(const SweepGrid& grid) {
  const std::size_t axis = *grid.axes.column(kBlocksKey);
  return static_cast<std::size_t>(grid.points().size() / grid.points().axes()[axis].size());
}

sim::ChoiceLimits block_limits(const SearchRequest& request) {
  using Clock = std::chrono::steady_clock;
  sim::ChoiceLimits limits{kMostSets, kMostNamed, kProvedBlocks, {}};
  if (!request.budget) return limits;
  const auto end = Clock::now() + std::chrono::duration<double>(*request.budget);
  limits.judged = limits.proof = std::numeric_limits<std::int32_t>::max();
  limits.is_over = [end] { return Clock::now() >= end; };
  return limits;
}

// Sets of blocks in place of the grid's values of the key; the other values stay.
class BlockSets {
 public:
  BlockSets(const SweepGrid& grid, const SearchRequest& request, SimulatorJudge& judge,
            std::vector<std::string> values)
      : grid_(grid),
        request_(request),
        judge_(judge),
        values_(std::move(values)),
        axis_(*grid.axes.column(kBlocksKey)) {}

  Result<RepeatedBlocks> blocks() const {
    return judge_.candidates().blocks(grid_.candidate(values_));
  }

  Result<sim::ChoiceRows> rows(std::size_t blocks) const {
    ScheduleLoads last;
    auto measured =
        block_rows(blocks, [&](const sim::Choice& recomputed, std::optional<double> clock) {
          auto loads = judge_.candidates().loads(grid_.candidate(values_of(recomputed)), clock);
          if (loads) last = *loads;
          return loads;
        });
    if (!measured) return tl::unexpected(measured.error());
    sim::ChoiceRows rows;
    rows.choices = blocks;
    if (request_.time_limit) {
      rows.cost = std::move(measured->live);
      rows.need = std::move(measured->busy);
      rows.limit = *request_.time_limit;
      return rows;
    }
    rows.cost = std::move(measured->busy);
    for (sim::ChoiceRow& row : rows.cost) to_costs(row, last.tokens_per_rank_step);
    rows.need = std::move(measured->live);
    rows.limit = *request_.memory_limit;
    if (last.capacity > 0) rows.limit = std::min(rows.limit, last.capacity);
    return rows;
  }

  Result<std::optional<sim::Judgement>> judge(const sim::Choice& recomputed) {
    run::SweepPoint point;
    point.index = kNoPoint;
    point.values = values_of(recomputed);
    const auto allowed = grid_.conditions.hold(point.values);
    if (!allowed) return tl::unexpected(allowed.error());
    if (!*allowed) return std::nullopt;
    auto judgement = judge_.judge_values(point);
    if (judgement && *judgement && (*judgement)->fits())
      points_.emplace(recomputed, std::move(point));
    return judgement;
  }

  const run::SweepPoint& point(const sim::Choice& recomputed) const {
    return points_.at(recomputed);
  }

 private:
  std::vector<std::string> values_of(const sim::Choice& recomputed) const {
    std::vector<std::string> values = values_;
    values[axis_] = plan::checkpointing_of(recomputed);
    return values;
  }

  // Each part is rounded down, so that a sum is at most what the sum of times costs.
  void to_costs(sim::ChoiceRow& row, std::int64_t tokens) const {
    const auto cost = [&](std::int64_t time) {
      return judge_.cost_floor({time, 0, 0, tokens}) - (time < 0 ? 1 : 0);
    };
    row.base = cost(row.base);
    for (std::int64_t& part : row.parts) part = cost(part);
  }

  const SweepGrid& grid_;
  const SearchRequest& request_;
  SimulatorJudge& judge_;
  std::vector<std::string> values_;
  std::size_t axis_;
  std::map<sim::Choice, run::SweepPoint> points_;  // those that fit
};

// Values of points that differ in the other settings, the best point's first.
std::vector<std::vector<std::string>> other_settings(const SweepGrid& grid,
                                                     const sim::SearchOutcome& outcome) {
  const sim::Grid& points = grid.points();
  const std::size_t axis = *grid.axes.column(kBlocksKey);
  std::vector<std::vector<std::string>> chosen;
  std::set<std::vector<std::string>> seen;
  const auto add = [&](std::int64_t point) {
    std::vector<std::string> values = points.values(point), others = values;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(axis));
    if (seen.insert(std::move(others)).second) chosen.push_back(std::move(values));
  };
  std::vector<sim::JudgedPoint> judged = outcome.judged;
  std::ranges::sort(judged);
  for (const sim::JudgedPoint& each : judged)
    if (chosen.size() < kMostSettings) add(each.point);
  if (settings_of(grid) <= kMostSettings)
    for (std::int64_t point = 0; point < points.size(); ++point) add(point);
  return chosen;
}

// Adds what one search found to what is known.
void add_outcome(const sim::ChoiceOutcome& outcome, BlockSearch& search) {
  search.simulated += outcome.judged;
  search.is_proved = search.is_proved && outcome.is_proved;
  if (!outcome.no_floor.empty()) search.no_floor = outcome.no_floor;
  if (!outcome.cost_floor) return;
  search.floor = std::min(search.floor.value_or(*outcome.cost_floor), *outcome.cost_floor);
}

}  // namespace

Result<FoundBlocks> search_blocks(const SweepGrid& grid, const SearchRequest& request,
                                  SimulatorJudge& judge, const sim::SearchOutcome& outcome) {
  FoundBlocks found;
  BlockSearch& search = found.search;
  search.is_proved = true;
  if (settings_of(grid) > kMostSettings) search.no_floor = "not all other settings were looked at";
  const sim::ChoiceLimits limits = block_limits(request);
  std::optional<sim::Judgement> least;
  if (outcome.best) least = outcome.best->judgement;
  std::string first_error;
  for (std::vector<std::string>& values : other_settings(grid, outcome)) {
    BlockSets blocks(grid, request, judge, std::move(values));
    const auto repeated = blocks.blocks();
    if (!repeated) {
      if (first_error.empty()) first_error = repeated.error().text();
      continue;
    }
    search.blocks = std::max(search.blocks, static_cast<std::int64_t>(repeated->count));
    auto measured = blocks.rows(repeated->count);
    sim::ChoiceRows none;
    none.choices = repeated->count;
    const auto sets = sim::search_choices(
        measured ? *measured : none,
        [&](const sim::Choice& recomputed) { return blocks.judge(recomputed); },
        repeated->recomputed, least, limits);
    if (!sets) return tl::unexpected(sets.error());
    if (!measured && sets->judged == 0) continue;  // settings that cannot be, whatever the set
    add_outcome(*sets, search);
    if (!measured) search.no_floor = measured.error().text();
    if (!sets->best) continue;
    found.best = blocks.point(sets->best->choice);
    least = sets->best->judgement;
  }
  if (search.blocks == 0)
    return fail_at("--blocks", "{}",
                   first_error.empty() ? "the model has no repeated blocks" : first_error);
  search.is_best = found.best.has_value();
  if (search.blocks > kProvedBlocks) search.solver = sim::solver_name().value_or("");
  if (!search.no_floor.empty()) {
    search.is_proved = false;
    search.floor.reset();
  }
  if (least && search.floor) {
    search.floor = std::min(*search.floor, least->cost);
    search.gap = static_cast<double>(least->cost) /
                     static_cast<double>(std::max<std::int64_t>(*search.floor, 1)) -
                 1;
  }
  return found;
}

}  // namespace foregather::tasks
