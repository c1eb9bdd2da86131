#include "core/plan/zero3_coordinator.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace foregather::plan {

Zero3Coordinator::Zero3Coordinator(const Limits& limits, std::vector<Parameter> parameters,
                                   std::vector<Rows> submodules)
    : limits_(limits),
      parameters_(std::move(parameters)),
      submodules_(std::move(submodules)),
      states_(parameters_.size()) {}

Zero3Coordinator::Rows Zero3Coordinator::begin_forward() {
  Rows unused;
  for (std::uint32_t row = 0; row < states_.size(); ++row) {
    if (!states_[row].is_in_flight) continue;
    states_[row].is_in_flight = false;
    release(row, unused);
  }
  if (trace_ == Trace::none) {
    trace_ = Trace::recording;
  } else if (trace_ == Trace::recording) {
    trace_ = Trace::complete;
    for (std::size_t step = 0; step < order_.size(); ++step)
      for (const std::uint32_t row : submodules_[order_[step]])
        uses_.push_back({row, static_cast<std::int64_t>(step)});
  }
  queue_.assign(uses_.begin(), uses_.end());
  for (State& state : states_) state.fetched_for = kNever;
  step_ = 0;
  gathered_ = 0;
  return unused;
}

void Zero3Coordinator::fetch_row(std::uint32_t row, Rows& into) {
  states_[row].is_gathered = true;
  states_[row].is_in_flight = true;
  gathered_ += parameters_[row].elements;
  into.push_back(row);
}

const Zero3Coordinator::Entry& Zero3Coordinator::enter(std::uint32_t submodule) {
  entry_ = {};
  if (trace_ == Trace::recording) order_.push_back(submodule);
  assert(trace_ != Trace::complete || order_[static_cast<std::size_t>(step_)] == submodule);
  for (const std::uint32_t row : submodules_[submodule])
    if (!states_[row].is_gathered) fetch_row(row, entry_.fetched);
  for (const std::uint32_t row : submodules_[submodule]) {
    State& state = states_[row];
    state.users.push_back(submodule);
    if (!state.is_in_flight) continue;
    state.is_in_flight = false;
    entry_.awaited.push_back(row);
  }
  if (trace_ == Trace::complete) prefetch(submodule);
  ++step_;
  return entry_;
}

void Zero3Coordinator::prefetch(std::uint32_t submodule) {
  const auto pop = [this] {
    const Use use = queue_.front();
    queue_.pop_front();
    State& state = states_[use.row];
    state.fetched_for = std::max(state.fetched_for, use.step);
    return use;
  };
  const Rows& own = submodules_[submodule];
  auto ahead = std::count_if(own.begin(), own.end(), [this](std::uint32_t row) {
    return states_[row].fetched_for < step_;
  });
  for (; ahead > 0 && !queue_.empty(); --ahead) pop();

  if (limits_.prefetch_bucket <= 0) return;
  const std::int64_t most = std::min(limits_.max_live - gathered_, limits_.prefetch_bucket);
  std::int64_t elements = 0;
  while (!queue_.empty() && elements < most) {
    const Use use = pop();
    if (states_[use.row].is_gathered) continue;
    fetch_row(use.row, entry_.prefetched);
    elements += parameters_[use.row].elements;
  }
  std::sort(entry_.prefetched.begin(), entry_.prefetched.end());
}

void Zero3Coordinator::release(std::uint32_t row, Rows& into) {
  State& state = states_[row];
  if (!state.is_gathered || state.is_in_flight || !state.users.empty()) return;
  state.is_gathered = false;
  gathered_ -= parameters_[row].elements;
  into.push_back(row);
}

Zero3Coordinator::Rows Zero3Coordinator::used_soon() const {
  Rows soon;
  std::int64_t passed = 0;
  for (auto step = static_cast<std::size_t>(step_); step < order_.size(); ++step) {
    if (passed >= limits_.max_reuse) break;
    for (const std::uint32_t row : submodules_[order_[step]]) {
      soon.push_back(row);
      passed += parameters_[row].elements;
    }
  }
  return soon;
}

bool Zero3Coordinator::is_kept(std::uint32_t row, const Rows& soon) const {
  return parameters_[row].persists || states_[row].fetched_for > step_ ||
         std::find(soon.begin(), soon.end(), row) != soon.end();
}

Zero3Coordinator::Rows Zero3Coordinator::leave(std::uint32_t submodule) {
  Rows released;
  const Rows& own = submodules_[submodule];
  if (own.empty()) return released;
  const bool complete = trace_ == Trace::complete;
  const Rows soon = complete ? used_soon() : Rows{};
  for (const std::uint32_t row : own) {
    std::erase(states_[row].users, submodule);
    if (!complete || !is_kept(row, soon)) release(row, released);
  }
  return released;
}

Zero3Coordinator::Rows Zero3Coordinator::release_all() {
  Rows released;
  for (std::uint32_t row = 0; row < states_.size(); ++row) {
    states_[row].users.clear();
    states_[row].is_in_flight = false;
    release(row, released);
  }
  return released;
}

Zero3Coordinator::Rows Zero3Coordinator::gather_persistent() {
  Rows rows;
  for (std::uint32_t row = 0; row < states_.size(); ++row) {
    if (!parameters_[row].persists) continue;
    states_[row].is_gathered = true;
    rows.push_back(row);
  }
  return rows;
}

}  // namespace foregather::plan
