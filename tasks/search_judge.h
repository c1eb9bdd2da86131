// What a search judges its points by.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "core/store/sweep_writer.h"
#include "sim/sweep/search.h"
#include "tasks/point_warnings.h"
#include "tasks/search.h"

namespace foregather::tasks {

/// Judges by the simulator, and by its bounds. One thread. What it is given is borrowed.
class SimulatorJudge final : public sim::Judge {
 public:
  /// `writer` may be null; else it gets each point that is simulated. `progress` gets their number.
  SimulatorJudge(const SweepGrid& grid, const SearchRequest& request, SearchGoal goal,
                 store::SweepWriter* writer, const std::function<void(std::int64_t)>& progress)
      : grid_(grid),
        request_(request),
        goal_(goal),
        writer_(writer),
        progress_(progress),
        candidates_(request.source, grid.text) {}

  Result<bool> is_allowed(std::int64_t point) override;
  std::optional<sim::Judgement> floor(std::int64_t point) override;
  Result<std::optional<sim::Judgement>> judge(std::int64_t point) override;

  /// Of values that need be no point of the grid; `point` has them and gets its figures.
  Result<std::optional<sim::Judgement>> judge_values(run::SweepPoint& point);

  /// Points by number.
  const std::map<std::int64_t, run::SweepPoint>& simulated() const { return simulated_; }
  /// Of the job's steps at points that may meet the limit, ruled out by their bounds or not: which
  /// numbers of tokens they hold.
  const std::set<std::int64_t>& tokens() const { return tokens_; }
  /// Of the points that were simulated.
  const PointWarnings& warnings() const { return warnings_; }
  /// Of the first point that cannot be; empty: all can.
  const std::string& first_error() const { return first_error_; }
  /// Bounds of a point, which must be possible.
  Result<CandidateFloors> floors(const Candidate& candidate);
  /// Could a point meet a wider limit? Not one that is too large for its devices, however long it
  /// may take.
  bool is_a_matter_of_the_limit(const sim::Judgement& judgement) const;
  /// The cost that a point cannot go below.
  std::int64_t cost_floor(const CandidateFloors& floors) const;
  const Candidates& candidates() const { return candidates_; }

 private:
  CandidateGroup& group_of(const Candidate& candidate);
  std::int64_t time_cost(Ns step, std::int64_t tokens) const;
  std::int64_t too_long(Ns step) const;
  std::optional<sim::Judgement> floor_of(const Candidate& candidate);
  sim::Judgement out_of_memory(const run::SweepPoint& point);

  const SweepGrid& grid_;
  const SearchRequest& request_;
  SearchGoal goal_;
  store::SweepWriter* writer_;
  const std::function<void(std::int64_t)>& progress_;
  Candidates candidates_;
  Candidates::Worker worker_;
  std::map<std::string, CandidateGroup> groups_;  ///< by schedule_key(): those looked at lately
  std::deque<std::string> order_;                 ///< of their coming
  std::map<std::int64_t, run::SweepPoint> simulated_;
  std::set<std::int64_t> tokens_;
  PointWarnings warnings_;
  std::string first_error_;
};

}  // namespace foregather::tasks
