#include "tasks/search_judge.h"

#include <algorithm>
#include <utility>

namespace foregather::tasks {
namespace {

// Beyond every time: a point that runs out of memory is farther from a time limit than any other.
constexpr std::int64_t kNoMemory = std::int64_t{1} << 60;
constexpr std::int64_t kPicoseconds = 1'000;
constexpr std::size_t kKeptGroups = 48;

}  // namespace

CandidateGroup& SimulatorJudge::group_of(const Candidate& candidate) {
  const std::string key = Candidates::schedule_key(candidate);
  const auto [group, is_new] = groups_.try_emplace(key);
  if (!is_new) return group->second;
  order_.push_back(key);
  if (order_.size() > kKeptGroups) {
    groups_.erase(order_.front());
    order_.pop_front();
  }
  return group->second;
}

std::int64_t SimulatorJudge::time_cost(Ns step, std::int64_t tokens) const {
  if (goal_ != SearchGoal::gpu_time_per_token || tokens == 0) return step;
  return step / tokens * kPicoseconds + step % tokens * kPicoseconds / tokens;
}

std::int64_t SimulatorJudge::too_long(Ns step) const {
  return std::max<Ns>(step - *request_.time_limit, 0);
}

Result<CandidateFloors> SimulatorJudge::floors(const Candidate& candidate) {
  return candidates_.floors(candidate, group_of(candidate));
}

Result<bool> SimulatorJudge::is_allowed(std::int64_t point) {
  return grid_.conditions.hold(grid_.points().values(point));
}

bool SimulatorJudge::is_a_matter_of_the_limit(const sim::Judgement& judgement) const {
  return goal_ != SearchGoal::memory || judgement.excess < kNoMemory;
}

std::int64_t SimulatorJudge::cost_floor(const CandidateFloors& floors) const {
  return goal_ == SearchGoal::memory ? floors.memory
                                     : time_cost(floors.step, floors.tokens_per_rank_step);
}

std::optional<sim::Judgement> SimulatorJudge::floor(std::int64_t point) {
  return floor_of(grid_.candidate(grid_.points().values(point)));
}

std::optional<sim::Judgement> SimulatorJudge::floor_of(const Candidate& candidate) {
  const auto least = floors(candidate);
  if (!least) {
    if (first_error_.empty()) first_error_ = least.error().text();
    return std::nullopt;
  }
  const Bytes beyond = least->capacity == 0 ? 0 : least->memory - least->capacity;
  const std::int64_t excess =
      goal_ == SearchGoal::memory
          ? (beyond > 0 ? kNoMemory + beyond : too_long(least->step))
          : std::max<Bytes>({least->memory - *request_.memory_limit, beyond, 0});
  if (excess == 0) tokens_.insert(least->tokens_per_rank_step * least->world_size);
  return sim::Judgement{excess, cost_floor(*least),
                        goal_ == SearchGoal::memory ? least->step : least->memory};
}

// Its cost is a bound.
sim::Judgement SimulatorJudge::out_of_memory(const run::SweepPoint& point) {
  const Bytes asked = *point.figures.memory->oom_bytes;
  sim::Judgement judgement = floor_of(grid_.candidate(point.values)).value_or(sim::Judgement{});
  if (goal_ == SearchGoal::memory)
    judgement.excess = std::max(judgement.excess, kNoMemory + asked);
  else
    judgement.excess = std::max<std::int64_t>(
        {judgement.excess, asked, point.figures.memory->capacity - *request_.memory_limit + asked});
  return judgement;
}

Result<std::optional<sim::Judgement>> SimulatorJudge::judge_values(run::SweepPoint& point) {
  const Candidate candidate = grid_.candidate(point.values);
  point = predict_values(grid_, point.index, std::move(point.values), candidates_,
                         group_of(candidate), worker_);
  if (point.status == run::PointStatus::failed) {
    if (first_error_.empty()) first_error_ = point.error;
    return std::nullopt;
  }
  if (!point.figures.memory)
    return fail_at(request_.source, "says nothing of memory, which a search goes by");
  const auto memory = device_memory(point.figures);
  if (!memory) return out_of_memory(point);
  const Ns step = point.figures.times->step;
  if (goal_ == SearchGoal::memory) return sim::Judgement{too_long(step), *memory, step};
  return sim::Judgement{std::max<Bytes>(*memory - *request_.memory_limit, 0),
                        time_cost(step, point.figures.tokens_per_rank_step), *memory};
}

Result<std::optional<sim::Judgement>> SimulatorJudge::judge(std::int64_t index) {
  run::SweepPoint point;
  point.index = index;
  point.values = grid_.points().values(index);
  auto judgement = judge_values(point);
  if (!judgement) return judgement;
  warnings_.add(std::exchange(point.warnings, {}));
  if (writer_ != nullptr)
    if (const Status added = writer_->add(point); !added) return tl::unexpected(added.error());
  simulated_.emplace(index, std::move(point));
  progress_(std::ssize(simulated_));
  return judgement;
}

}  // namespace foregather::tasks
