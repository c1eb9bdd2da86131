#include "sim/engine/memory_plan.h"

#include <algorithm>
#include <cassert>

namespace foregather::sim {
namespace {

bool touches_memory(const Action& action) {
  switch (action.kind) {
    case ActionKind::alloc:
    case ActionKind::free:
    case ActionKind::release:
    case ActionKind::empty_cache: return true;
    default: return false;
  }
}

}  // namespace

// Without recorded streams the allocator never asks.
struct MemoryPlan::NoClock final : alloc::EventClock {
  alloc::EventToken record(alloc::StreamId) override {
    assert(false);
    return {};
  }
  bool query(alloc::EventToken) override { return true; }
  void synchronize(alloc::EventToken) override {}
};

MemoryPlan::MemoryPlan(const Graph& graph, const Program& program, const alloc::AllocConfig& config,
                       Bytes capacity)
    : program_(program),
      clock_(std::make_unique<NoClock>()),
      memory_(std::in_place, graph, program, config, capacity, *clock_, false),
      remembers_(config.garbage_collection_threshold > 0),
      scales_(remembers_ || config.memory_fraction < 1 || config.expandable_segments) {}

MemoryPlan::~MemoryPlan() = default;

std::unique_ptr<MemoryPlan> MemoryPlan::make(const Graph& graph, const Program& program,
                                             const alloc::AllocConfig& config, Bytes capacity,
                                             std::shared_ptr<const Graph> keep) {
  std::unique_ptr<MemoryPlan> plan(new MemoryPlan(graph, program, config, capacity));
  for (std::size_t section = 0; section < kSections; ++section)
    if (!take_turns(program, static_cast<Section>(section), plan->turns_[section])) return nullptr;
  plan->keep_ = std::move(keep);
  return plan;
}

// A turn lasts until the thread waits for an action that has not been performed. What it does after
// the action that another thread waits for happens beside that thread.
bool MemoryPlan::take_turns(const Program& program, Section section, std::vector<Turn>& turns) {
  const auto threads = static_cast<std::uint32_t>(program.threads.size());
  std::vector<std::uint32_t> at(threads, 0);
  const auto must_wait = [&](const Action& action) {
    return action.kind == ActionKind::host_wait_action && at[action.a] <= action.b;
  };
  // Where other threads could begin to run beside a turn of `thread` that is at `from`.
  const auto others_begin = [&](std::uint32_t thread, std::uint32_t from) {
    std::uint32_t first = 0xffffffffU;
    for (std::uint32_t other = 0; other < threads; ++other) {
      const auto actions = program.threads[other].actions(section);
      if (other == thread || at[other] == actions.size()) continue;
      const Action& next = actions[at[other]];
      if (!must_wait(next)) return from;
      if (next.a == thread) first = std::min(first, next.b + 1);
    }
    return first;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::uint32_t thread = 0; thread < threads; ++thread) {
      const auto actions = program.threads[thread].actions(section);
      const std::uint32_t begin = at[thread];
      const std::uint32_t alone_until = others_begin(thread, begin);
      std::uint32_t end = begin;
      for (; end < actions.size() && !must_wait(actions[end]); ++end) {
        if (actions[end].kind == ActionKind::record_stream) return false;
        if (end >= alone_until &&
            (touches_memory(actions[end]) || actions[end].kind == ActionKind::launch))
          return false;
      }
      if (end == begin) continue;
      turns.push_back({thread, begin, end});
      at[thread] = end;
      moved = true;
    }
  }
  return true;
}

const MemoryPlan::Step& MemoryPlan::step(std::uint32_t number) {
  std::unique_lock lock(mutex_);
  while (steps_.size() <= number && !repeats_) {
    if (fault_) std::rethrow_exception(fault_);
    if (is_planning_) {
      planned_.wait(lock);
      continue;
    }
    assert(steps_.empty() || !steps_.back().failure);
    is_planning_ = true;
    const std::size_t next = steps_.size();
    lock.unlock();
    Step step;
    bool is_unchanged = false;
    std::exception_ptr fault;
    try {
      step = plan(next);
      is_unchanged = this->is_unchanged(next, step);
    } catch (...) {  // no memory for the plan itself: everybody's fault
      fault = std::current_exception();
    }
    lock.lock();
    is_planning_ = false;
    if (fault) {
      fault_ = fault;
      planned_.notify_all();
      continue;
    }
    repeats_ = is_unchanged;
    most_reserved_ = std::max(most_reserved_, step.peaks.reserved);
    retried_ = retried_ || step.peaks.retries != 0;
    if (repeats_ || step.failure) {
      memory_.reset();
      keep_.reset();
    }
    steps_.push_back(std::move(step));
    planned_.notify_all();
  }
  return steps_[std::min<std::size_t>(number, steps_.size() - 1)];
}

bool MemoryPlan::holds_from(Bytes capacity) {
  const std::lock_guard lock(mutex_);
  return repeats_ && !scales_ && !retried_ && most_reserved_ <= capacity;
}

// Segments are as they were unless the driver was called. Then the free blocks follow from the
// others, since neighbours always merge.
bool MemoryPlan::is_unchanged(std::size_t number, const Step& step) {
  if (remembers_ || step.failure) return false;
  if (number + 1 < kSections - 1) return false;
  const auto before = std::move(places_);
  places_ = memory_->places();
  if (number + 1 < kSections) return false;
  return places_ == before &&
         std::ranges::all_of(step.calls, [](const auto& calls) { return calls.empty(); });
}

MemoryPlan::Step MemoryPlan::plan(std::size_t number) {
  const std::size_t section = std::min(number, kSections - 1);
  Step step;
  step.calls.resize(program_.threads.size());
  memory_->begin_step(0);
  for (const Turn& turn : turns_[section]) {
    const auto actions = program_.threads[turn.thread].actions(static_cast<Section>(section));
    for (std::uint32_t i = turn.begin; i < turn.end && !step.failure; ++i) {
      const Action& action = actions[i];
      if (action.kind == ActionKind::launch) {
        memory_->launched(action.a);
        continue;
      }
      if (!touches_memory(action)) continue;
      if (!perform(action)) {
        step.failure = {turn.thread, i};
        const auto next = std::find_if(actions.begin() + i, actions.end(), [](const Action& each) {
          return each.kind == ActionKind::launch;
        });
        if (next != actions.end()) memory_->launched(next->a);
      } else if (memory_->driver_calls() != nullptr) {
        step.calls[turn.thread].push_back({i, *memory_->driver_calls()});
      }
    }
  }
  step.peaks = memory_->end_step(0).peaks;
  return step;
}

// False if there is no memory.
bool MemoryPlan::perform(const Action& action) {
  switch (action.kind) {
    case ActionKind::alloc: return memory_->alloc(action.a, action.stream, 0);
    case ActionKind::free: memory_->free(action.a, 0); return true;
    case ActionKind::release: memory_->release(action.a, 0); return true;
    default: memory_->empty_cache(0); return true;
  }
}

}  // namespace foregather::sim
