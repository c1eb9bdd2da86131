#include "sim/engine/memory_plan.h"

#include <algorithm>
#include <cassert>
#include <tuple>

#include "core/alloc/rounding.h"

namespace foregather::sim {
namespace {

bool calls_driver(const MemoryPlan::Step& step) {
  return !std::ranges::all_of(step.calls, [](const auto& calls) { return calls.empty(); });
}

// An allocation found the device full, whether it released everything or only what is oversize.
bool met_limit(const MemoryPlan::Step& step) {
  const auto has_failed = [](const MemoryPlan::DriverCall& call) {
    return call.calls.failed_mallocs != 0;
  };
  return step.peaks.retries != 0 || std::ranges::any_of(step.calls, [&](const auto& calls) {
           return std::ranges::any_of(calls, has_failed);
         });
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
    : graph_(graph),
      program_(program),
      clock_(std::make_unique<NoClock>()),
      memory_(std::in_place, graph, program, config, capacity, *clock_, false),
      remembers_(config.garbage_collection_threshold > 0),
      scales_(remembers_ || config.memory_fraction < 1 || config.expandable_segments),
      is_plain_(!scales_ && !config.max_split_size) {}

MemoryPlan::~MemoryPlan() = default;

std::unique_ptr<MemoryPlan> MemoryPlan::make(const Graph& graph, const Program& program,
                                             const alloc::AllocConfig& config, Bytes capacity,
                                             std::shared_ptr<const Graph> keep,
                                             std::shared_ptr<const Turns> turns) {
  if (turns == nullptr) return nullptr;
  std::unique_ptr<MemoryPlan> plan(new MemoryPlan(graph, program, config, capacity));
  plan->turns_ = std::move(turns);
  plan->keep_ = std::move(keep);
  return plan;
}

std::shared_ptr<const MemoryPlan::Turns> MemoryPlan::take_turns(const Program& program) {
  auto turns = std::make_shared<Turns>();
  for (std::size_t section = 0; section < kSections; ++section)
    if (!take_turns(program, static_cast<Section>(section), (*turns)[section])) return nullptr;
  return turns;
}

// A turn lasts until the thread waits for an action that has not been performed. What it does after
// the action that another thread waits for happens beside that thread, and may be neither a launch
// nor touch memory.
bool MemoryPlan::take_turns(const Program& program, Section section, std::vector<Turn>& turns) {
  const auto threads = static_cast<std::uint32_t>(program.threads.size());
  std::vector<std::uint32_t> at(threads, 0);
  const auto must_wait = [&](const Action& wait) { return at[wait.a] <= wait.b; };
  // Where other threads could begin to run beside a turn of `thread` that is at `from`.
  const auto others_begin = [&](std::uint32_t thread, std::uint32_t from) {
    std::uint32_t first = 0xffffffffU;
    for (std::uint32_t other = 0; other < threads; ++other) {
      const auto actions = program.threads[other].actions(section);
      if (other == thread || at[other] == actions.size()) continue;
      const Action& next = actions[at[other]];
      if (next.kind != ActionKind::host_wait_action || !must_wait(next)) return from;
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
      const auto is_common = [](const Action& action) {
        return action.kind <= ActionKind::release;  // a launch, or it touches memory
      };
      const auto unwatched = std::min<std::size_t>(actions.size(), alone_until);
      std::uint32_t end = begin;
      for (; end < actions.size(); ++end) {
        while (end < unwatched && is_common(actions[end])) ++end;
        if (end == actions.size()) break;
        const Action& action = actions[end];
        if (action.kind == ActionKind::record_stream) return false;
        if (action.kind == ActionKind::host_wait_action && must_wait(action)) break;
        if (end >= alone_until && (is_common(action) || action.kind == ActionKind::empty_cache))
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
    bool is_settled = false;
    std::exception_ptr fault;
    try {
      step = plan(next);
      is_settled = keeps_places(next, step) && next_is_alike(step);
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
    repeats_ = is_settled;
    most_reserved_ = std::max(most_reserved_, step.peaks.reserved);
    met_limit_ = met_limit_ || met_limit(step);
    if (repeats_ || step.failure) {
      memory_.reset();
      keep_.reset();
      places_ = {};
      cuts_ = {};
    }
    steps_.push_back(std::move(step));
    if (repeats_ && calls_driver(steps_.back())) {
      steps_.push_back(steps_.back());
      for (std::vector<DriverCall>& calls : steps_.back().calls) calls.clear();
    }
    planned_.notify_all();
  }
  return steps_[std::min<std::size_t>(number, steps_.size() - 1)];
}

bool MemoryPlan::holds_from(Bytes capacity) {
  const std::lock_guard lock(mutex_);
  return repeats_ && !scales_ && !met_limit_ && most_reserved_ <= capacity;
}

bool MemoryPlan::keeps_places(std::size_t number, const Step& step) {
  if (remembers_ || step.failure) return false;
  if (number + 1 < kSections - 1) return false;
  const auto before = std::move(places_);
  places_ = memory_->places();
  return number + 1 >= kSections && places_ == before;
}

// Segments are as they were unless the driver was called, and idle blocks follow from the others,
// since neighbours always merge. Where segments came, the next step finds them idle, beside what
// this step found. It differs if one fits an alloc better that came before its own.
bool MemoryPlan::next_is_alike(const Step& step) const {
  if (!calls_driver(step)) return true;
  const auto is_segment = [](const DriverCall& call) {
    return call.calls ==
           alloc::DriverCalls{.mallocs = 1, .bytes_allocated = call.calls.bytes_allocated};
  };
  constexpr std::size_t kMostSegments = 64;  // so that comparing costs less than planning
  if (!is_plain_) return false;
  for (const std::vector<DriverCall>& calls : step.calls)
    if (calls.size() > kMostSegments || !std::ranges::all_of(calls, is_segment)) return false;
  const auto asked = [&](const Cut& cut) { return graph_.storages[cut.action->a].bytes; };
  std::vector<const Cut*> later;
  for (auto at = cuts_.rbegin(); at != cuts_.rend(); ++at) {
    const Cut& cut = *at;
    if (later.empty() && !cut.is_new) continue;
    const alloc::PoolKind pool = alloc::pool_kind(asked(cut));
    if (pool == alloc::PoolKind::large && cut.from.bytes < alloc::kMinLargeAlloc) continue;
    const auto fits_better = [&](const Cut* segment) {
      return segment->action->stream == cut.action->stream &&
             alloc::pool_kind(asked(*segment)) == pool && segment->from.bytes >= asked(cut) &&
             std::tie(segment->from.bytes, segment->from.address) <
                 std::tie(cut.from.bytes, cut.from.address);
    };
    if (std::ranges::any_of(later, fits_better)) return false;
    if (cut.is_new) later.push_back(&cut);
  }
  return true;
}

MemoryPlan::Step MemoryPlan::plan(std::size_t number) {
  const std::size_t section = std::min(number, kSections - 1);
  Step step;
  step.calls.resize(program_.threads.size());
  cuts_.clear();
  memory_->begin_step(0);
  for (const Turn& turn : (*turns_)[section])
    if (!perform(turn, static_cast<Section>(section), number + 1 >= kSections, step)) break;
  step.peaks = memory_->end_step(0).peaks;
  return step;
}

// Flat, because calls are a tenth of what an alloc costs.
[[gnu::flatten]] bool MemoryPlan::perform(const Turn& turn, Section section, bool notes_cuts,
                                          Step& step) {
  const auto actions = program_.threads[turn.thread].actions(section);
  ClassMemory& memory = *memory_;
  for (const Action& action : actions.subspan(turn.begin, turn.end - turn.begin)) {
    switch (action.kind) {
      case ActionKind::launch: memory.launched(action.a); continue;
      case ActionKind::alloc:
        if (!memory.alloc(action.a, action.stream, 0)) [[unlikely]] {
          const auto at = static_cast<std::uint32_t>(&action - actions.data());
          step.failure = {turn.thread, at};
          const auto next =
              std::find_if(actions.begin() + at, actions.end(),
                           [](const Action& each) { return each.kind == ActionKind::launch; });
          if (next != actions.end()) memory.launched(next->a);
          return false;
        }
        if (notes_cuts && memory.cut().bytes >= alloc::kSmallBuffer)
          cuts_.push_back({&action, memory.driver_calls() != nullptr, memory.cut()});
        break;
      case ActionKind::free: memory.free(action.a, 0); break;
      case ActionKind::release: memory.release(action.a, 0); break;
      case ActionKind::empty_cache: memory.empty_cache(0); break;
      default: continue;
    }
    if (memory.driver_calls() != nullptr) [[unlikely]]
      step.calls[turn.thread].push_back(
          {static_cast<std::uint32_t>(&action - actions.data()), *memory.driver_calls()});
  }
  return true;
}

}  // namespace foregather::sim
