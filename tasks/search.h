// The use case of `foregather search`: the fastest point of a grid that fits a memory limit, or the
// smallest that meets a time limit.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/run/sweep.h"
#include "tasks/summary.h"
#include "tasks/sweep_grid.h"

namespace foregather::tasks {

/// Exactly one of the limits is given.
struct SearchRequest : GridRequest {
  std::optional<Bytes> memory_limit;  ///< of a device, with what lies outside the allocator
  std::optional<Ns> time_limit;       ///< of a step
  bool per_token = false;             ///< GPU time per token instead of step time is to be least
  std::optional<double> budget;       ///< seconds; otherwise a number of points that follows
                                      ///< from the grid
  bool blocks = false;                ///< then chooses which blocks are recomputed
  std::string database;               ///< where simulated points are kept; empty: nowhere
};

/// What a search minimises.
enum class SearchGoal : std::uint8_t { step_time, gpu_time_per_token, memory };
std::string_view name(SearchGoal goal);

struct SearchBest {
  run::SweepPoint point;
  std::string command;     ///< `foregather simulate …` that predicts it
  Bytes memory = 0;        ///< on the device
  Ns time_bound = 0;       ///< no order of its ops takes less
  Bytes memory_bound = 0;  ///< nor this
  double gap = 0;          ///< by which it is above the bound of its goal: 0.02 is 2 %
  PathFigures path;
  std::string_view limited_by;  ///< compute, link, host, memory, time
  std::string because;
};

/// A point that came closest to the limit from outside.
struct SearchMiss {
  std::vector<std::string> values;
  std::int64_t need = 0;            ///< bytes of a device, or ns
  bool is_simulated = false;        ///< false: `need` is a bound
  bool runs_out_of_memory = false;  ///< whatever the limit
};

/// The search among sets of recomputed blocks, with other settings of the grid's points.
struct BlockSearch {
  std::int64_t blocks = 0;            ///< of the model
  std::int64_t simulated = 0;         ///< sets
  bool is_best = false;               ///< a set is better than the grid's best point
  bool is_proved = false;             ///< no other set is better than the best
  std::optional<std::int64_t> floor;  ///< in what the goal counts: no set that fits takes less
  double gap = 0;                     ///< of the best above it
  std::string solver;                 ///< that says so; empty: all sets were gone through
  std::string no_floor;               ///< why there is none
};

struct SearchReport {
  SearchRequest request;
  run::SweepInfo info;
  SearchGoal goal = SearchGoal::step_time;
  std::int64_t simulated = 0, ruled_out = 0, excluded = 0, impossible = 0;
  bool is_proved = false;
  std::optional<double> grid_gap;  ///< how far the best is above what other points may still reach
  std::optional<SearchBest> best;
  std::optional<BlockSearch> blocks;
  std::vector<run::SweepPoint> runners_up;  ///< each of another kind, the best of it
  std::optional<SearchMiss> closest;        ///< where nothing fits
  std::vector<std::string> warnings;
  std::string first_error;  ///< of a point that cannot be
};

/// Simulates few of the grid's points (sim/sweep/search.h). Grids of at most 4,096 points are gone
/// through until the answer is proved; of larger ones a fiftieth is simulated, at least 64 and at
/// most 2,000 points; with a budget, as many as it takes to prove the answer of a grid of at most a
/// million, until the time is over. With `blocks` sets of recomputed blocks follow, with a budget
/// of their own (tasks/block_search.h). Without a budget the same request gives the same report.
/// That nothing fits is a result. `progress` gets the number of simulated points.
///
/// Errors: bad usage; no point meets the conditions, or can be predicted; the database.
Result<SearchReport> search(const SearchRequest& request,
                            const std::function<void(std::int64_t)>& progress);

/// The JSON object of `search --json`, with a line end. See docs/search.md.
std::string to_json(const SearchReport& report);

/// "300ms", "1.5s".
Result<Ns> parse_time_limit(const std::string& text);

/// The device's memory that a point needs; absent: out of memory, or its source does not say.
std::optional<Bytes> device_memory(const run::PointFigures& figures);

}  // namespace foregather::tasks
