#include "sim/engine/engine.h"

#include <algorithm>
#include <map>
#include <system_error>
#include <utility>

#include "sim/engine/host_loop.h"
#include "sim/engine/list_device.h"
#include "sim/engine/memory_plans.h"
#include "sim/engine/shared_device.h"

namespace foregather::sim {
namespace {

constexpr std::uint32_t kFirst = 1;            // number of the first step; 0 is init
constexpr std::uint32_t kDriftingLonger = 10;  // times as many steps where classes drift apart
constexpr std::size_t kMostBuffers = 4;        // init, the first step and two more
constexpr std::size_t kWorthAThread = 4096;  // actions: to plan them takes longer than to begin one

// When the device was done with a step; the host's time if it launched nothing.
Ns step_end(const StepTimes& times, const StepRecord& record) {
  return times.end == 0 ? record.host_end : times.end;
}

template <class Device>
struct Played {
  const Graph& graph;
  std::span<const LaunchRows> rows;
  const Meetings& meetings;
  std::vector<Timeline>& timelines;
  HostLoop<Device>& host;

  Ns end(std::uint16_t c, std::uint32_t step) {
    return step_end(timelines[c].step(step), host.record(c, step));
  }

  // Step times of the last two steps agree, and so do their reserved peaks. Allocated bytes may
  // differ for ever by the slack of blocks that are not split.
  bool repeats(std::uint32_t last) {
    for (std::uint16_t c = 0; c < graph.classes.size(); ++c) {
      if (timelines[c].step(last).unfinished != 0) return false;
      if (end(c, last) - end(c, last - 1) != end(c, last - 1) - end(c, last - 2)) return false;
      const MemoryPeaks& now = host.record(c, last).memory.peaks;
      const MemoryPeaks& before = host.record(c, last - 1).memory.peaks;
      if (now.reserved != before.reserved) return false;
    }
    return true;
  }

  // Hosts that take longer than the device still live on what they were ahead. Classes that met in
  // the last step took different times over it: the faster one will have to wait for the slower
  // one, but was still late, or had work of its own to do meanwhile.
  bool drifts(std::uint32_t last) {
    const auto took = [&](std::uint16_t c) { return end(c, last) - end(c, last - 1); };
    const auto host_took = [&](std::uint16_t c) {
      return host.record(c, last).host_end - host.record(c, last - 1).host_end;
    };
    for (std::uint16_t c = 0; c < graph.classes.size(); ++c)
      if (host_took(c) > took(c)) return true;
    bool is_one = true;
    for (std::uint16_t c = 1; c < graph.classes.size() && is_one; ++c) is_one = took(c) == took(0);
    if (is_one) return false;
    for (std::uint16_t c = 0; c < graph.classes.size(); ++c) {
      const std::vector<OpState>& states = timelines[c].step(last).states;
      for (std::size_t i = 0; i < states.size(); ++i) {
        if (states[i] == OpState::absent || !rows[c][i].collective) continue;
        for (const std::uint16_t other : meetings.classes(c, rows[c][i].communicator))
          if (took(other) != took(c)) return true;
      }
    }
    return false;
  }

  // Step `last` goes on as the one before, `later`. If that shows both that the step repeats and
  // what is left of it (nothing of it overlaps the step before), completes it.
  bool settle(std::uint32_t last, Ns later) {
    for (std::uint16_t c = 0; c < graph.classes.size(); ++c) {
      const StepTimes& before = timelines[c].step(last - 1);
      const StepTimes& now = timelines[c].step(last);
      if (before.unfinished != 0 || end(c, last - 1) - end(c, last - 2) != later) return false;
      for (std::size_t i = 0; i < now.ops.size(); ++i) {
        if (now.states[i] == OpState::absent) continue;
        const bool is_done = now.states[i] == OpState::done;
        if ((is_done ? now.ops[i].start : before.ops[i].start + later) < before.end) return false;
      }
    }
    host.end_settled();
    for (Timeline& timeline : timelines) go_on(timeline.step(last - 1), later, timeline.step(last));
    return true;
  }

  static void go_on(const StepTimes& before, Ns later, StepTimes& now) {
    for (std::size_t i = 0; i < now.ops.size(); ++i) {
      if (now.states[i] == OpState::done || before.states[i] == OpState::absent) continue;
      const OpTime& like = before.ops[i];
      OpTime& time = now.ops[i];
      const Ns issued = now.states[i] == OpState::launched ? time.issued : like.issued + later;
      time = like;
      time.issued = issued;
      time.start += later;
      time.transfer += later;
      time.end += later;
      now.states[i] = OpState::done;
    }
    now.end = before.end + later;
    now.unfinished = 0;
  }

  // Gives up the buffers of steps before `oldest` that the device is done with.
  void retire(std::uint16_t c, std::uint32_t oldest, ClassResult& result) {
    if (timelines[c].oldest() == 0) {
      if (timelines[c].step(kFirst).unfinished != 0) return;
      if (std::as_const(timelines[c]).step(0).unfinished != 0) return;
      result.first = take(c, kFirst);
      timelines[c].forget_before(kFirst + 1);
    }
    while (timelines[c].oldest() < oldest &&
           timelines[c].step(timelines[c].oldest()).unfinished == 0) {
      host.record(c, timelines[c].oldest()).memory = {};
      timelines[c].forget_before(timelines[c].oldest() + 1);
    }
  }

  // The first step and the one under way, as far as they came.
  void take_until(std::uint32_t step, std::uint16_t c, ClassResult& result) {
    if (step > kFirst) {
      if (timelines[c].oldest() <= kFirst) result.first = take(c, kFirst);
      result.steady = take(c, step);
    } else {
      result.first = take(c, step);
      result.steady.peaks = result.first.peaks;
    }
  }

  StepResult take(std::uint16_t c, std::uint32_t step) {
    StepTimes& times = timelines[c].step(step);
    StepRecord& record = host.record(c, step);
    StepResult result;
    result.begin = step <= kFirst ? record.host_begin : end(c, step - 1);
    result.end = end(c, step);
    result.host_end = record.host_end;
    result.ran = std::move(times.ran);
    result.ran.resize(times.states.size());
    std::ranges::transform(times.states, result.ran.begin(), [](OpState state) {
      return static_cast<std::uint8_t>(state == OpState::done);
    });
    result.ops = std::move(times.ops);
    result.bindings = std::move(record.memory.bindings);
    result.segments = std::move(record.memory.segments);
    result.memory = std::move(record.memory.points);
    result.peaks = record.memory.peaks;
    return result;
  }
};

// Of a step whose rows stand elsewhere.
StepResult figures_of(const StepResult& step) {
  StepResult figures;
  figures.begin = step.begin;
  figures.end = step.end;
  figures.host_end = step.host_end;
  figures.peaks = step.peaks;
  return figures;
}

// What the rest of the job would do if nothing more were launched: played on a copy.
void play_ahead(const ListDevice&, std::vector<SharedDevice::Ended>&) {}
void play_ahead(const SharedDevice& device, std::vector<SharedDevice::Ended>& log) {
  SharedDevice copy = device;
  copy.log_to(&log);
  copy.advance(kForever - 1);
}

}  // namespace

Engine::Engine(const Graph& graph, const EngineOptions& options)
    : graph_(graph),
      options_(options),
      launches_(std::make_unique<LaunchTable>()),
      meetings_(std::make_unique<const Meetings>(graph)),
      buffers_(graph.classes.size()),
      plans_(graph.classes.size()) {
  if (options.memory && !options.record_memory) {
    // Classes of one program do the same with their memory.
    std::map<std::uint32_t, std::shared_ptr<MemoryPlan>> by_program;
    for (std::size_t c = 0; c < plans_.size(); ++c) {
      const ProgramId program = graph.classes[c].program;
      const auto [plan, is_new] = by_program.try_emplace(program.row());
      if (is_new)
        plan->second = MemoryPlan::make(graph, graph.at(program), options.alloc, options.capacity);
      plans_[c] = plan->second;
    }
    plan_ahead();
  }
  if (may_skip())
    repeats_ = std::make_shared<const ProgramRepeats>(find_repeats(graph_, first_program()));
}

Engine::Engine(const std::shared_ptr<const Graph>& graph, const EngineOptions& options,
               MemoryPlans& plans, std::unique_ptr<Engine> before)
    : graph_(*graph),
      options_(options),
      launches_(std::make_unique<LaunchTable>()),
      meetings_(std::make_unique<const Meetings>(*graph)),
      plans_(graph->classes.size()),
      keep_(graph) {
  if (before != nullptr) {
    buffers_ = std::move(before->buffers_);
    events_ = std::move(before->events_);
  }
  buffers_.resize(graph->classes.size());
  if (!may_skip()) return;
  const auto actions_of = [&](std::size_t c) {
    return actions_signature(graph->at(graph->classes[c].program));
  };
  const Signature actions = actions_of(0);
  repeats_of_ = {actions, launches_signature(*graph, first_program())};
  if (before != nullptr && before->repeats_ != nullptr && before->repeats_of_ == repeats_of_)
    repeats_ = before->repeats_;
  else
    repeats_ = std::make_shared<const ProgramRepeats>(find_repeats(*graph, first_program()));
  if (!options.memory) return;
  for (std::size_t c = 0; c < plans_.size(); ++c)
    plans_[c] = plans.find(graph, graph->classes[c].program, c == 0 ? actions : actions_of(c),
                           options.alloc, options.capacity);
}

// The steps that every simulation asks for, in the order in which it does. A plan whose step is
// under way elsewhere is waited for; simulate() takes part.
void Engine::plan_ahead() {
  std::vector<std::shared_ptr<MemoryPlan>> plans;
  for (const auto& plan : plans_)
    if (plan != nullptr && std::ranges::find(plans, plan) == plans.end()) plans.push_back(plan);
  std::size_t actions = 0;
  for (const Program& program : graph_.programs)
    for (const HostThread& thread : program.threads)
      for (const auto& section : thread.sections) actions += section.size();
  if (plans.empty() || actions < kWorthAThread || std::thread::hardware_concurrency() < 2) return;
  const auto plan_all = [plans, last = options_.once ? kFirst
                                                     : kFirst + 2](const std::stop_token& stopped) {
    try {
      std::vector<bool> failed(plans.size());
      for (std::uint32_t step = 0; step <= last; ++step)
        for (std::size_t i = 0; i < plans.size(); ++i)
          if (!failed[i] && !stopped.stop_requested())
            failed[i] = plans[i]->step(step).failure.has_value();
    } catch (...) {  // whoever asks for that step gets the same
    }
  };
  try {
    planner_ = std::jthread(plan_all);
  } catch (const std::system_error&) {  // no thread is to be had: simulate() plans
  }
}

bool Engine::may_skip() const {
  return !graph_.classes.empty() && !(options_.memory && options_.record_memory);
}

Engine::~Engine() = default;

Result<Simulation> Engine::simulate(std::span<const CostTable> prices) {
  if (graph_.classes.empty()) return fail("the schedule has no rank class");
  for (const RankClass& rank_class : graph_.classes)
    if (graph_.at(rank_class.program).threads.empty())
      return fail("rank class '{}' has no host thread, so it never takes a step",
                  graph_.text(rank_class.name));
  const bool has_leads = std::ranges::any_of(graph_.costs, [](const Cost& cost) {
    return cost.launch_lead + cost.lead + cost.lateness != 0;
  });
  return options_.contention && !has_leads ? run<SharedDevice>(prices) : run<ListDevice>(prices);
}

template <class Device>
Result<Simulation> Engine::run(std::span<const CostTable> prices) {
  const Graph& graph = graph_;
  const EngineOptions& options = options_;
  launches_->fill(graph, prices);
  const std::span<const LaunchRows> rows = launches_->by_class();
  std::vector<Timeline> timelines;
  for (std::size_t c = 0; c < graph.classes.size(); ++c)
    timelines.emplace_back(graph.at(graph.classes[c].program).ops, std::move(buffers_[c]));
  Device device(graph, rows, prices, timelines, *meetings_, std::move(events_));
  const bool may_skip = !options.memory || std::ranges::all_of(plans_, [](const auto& plan) {
    return plan != nullptr;
  });
  HostLoop<Device> host(graph, rows, prices, options, plans_, may_skip ? repeats_.get() : nullptr,
                        device);
  Played<Device> all{graph, rows, *meetings_, timelines, host};
  Simulation simulation;
  simulation.classes.resize(graph.classes.size());

  std::uint32_t last = options.once ? kFirst : kFirst + 2;
  const std::uint32_t most_bodies = std::max<std::uint32_t>(options.max_bodies, 2);
  std::uint32_t limit = kFirst + most_bodies;
  while (true) {
    if (Status issued = host.issue(last); !issued) return tl::unexpected(issued.error());
    if (host.oom()) break;
    if (host.settled() != 0) {
      simulation.converged = all.settle(last, host.settled());
      if (simulation.converged) break;
      continue;
    }
    std::vector<SharedDevice::Ended> log;
    play_ahead(device, log);
    simulation.converged = options.once || all.repeats(last);
    if (!options.once && simulation.converged && all.drifts(last)) {
      simulation.converged = false;
      limit = kFirst + kDriftingLonger * most_bodies;
    }
    if (simulation.converged || last == limit) break;
    SharedDevice::undo(log, timelines);
    for (std::uint16_t c = 0; c < graph.classes.size(); ++c)
      all.retire(c, last - 1, simulation.classes[c]);
    ++last;
  }
  simulation.unresolved_synchronizations = host.unresolved_synchronizations();
  simulation.steps = last;
  if (host.oom()) {
    simulation.oom = host.oom();
    simulation.converged = false;
    device.advance(kForever - 1);
    for (std::uint16_t c = 0; c < graph.classes.size(); ++c)
      all.take_until(host.begun(c), c, simulation.classes[c]);
    return simulation;
  }
  events_ = device.take_events();
  for (std::uint16_t c = 0; c < graph.classes.size(); ++c) {
    simulation.classes[c].steady = all.take(c, last);
    if (options.once)
      simulation.classes[c].first = figures_of(simulation.classes[c].steady);
    else if (timelines[c].oldest() <= kFirst)
      simulation.classes[c].first = all.take(c, kFirst);
    buffers_[c] = timelines[c].take_buffers();
  }
  return simulation;
}

// The rows of ops went with the simulation, their states stayed.
void Engine::recycle(Simulation&& simulation) {
  for (std::size_t c = 0; c < simulation.classes.size(); ++c) {
    std::vector<StepTimes>& buffers = buffers_[c];
    const auto is_bare = [](const StepTimes& times) { return times.ops.empty(); };
    for (StepResult* step : {&simulation.classes[c].first, &simulation.classes[c].steady}) {
      if (step->ops.empty()) continue;
      const auto bare = std::ranges::find_if(buffers, is_bare);
      if (bare == buffers.end() && buffers.size() == kMostBuffers) break;
      StepTimes& times = bare != buffers.end() ? *bare : buffers.emplace_back();
      times.ops = std::move(step->ops);
      times.ran = std::move(step->ran);
    }
    std::erase_if(buffers, is_bare);
  }
}

Result<Simulation> simulate(const Graph& graph, std::span<const CostTable> prices,
                            const EngineOptions& options) {
  return Engine(graph, options).simulate(prices);
}

}  // namespace foregather::sim
