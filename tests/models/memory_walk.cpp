#include "tests/models/memory_walk.h"

#include "sim/memory/host_order.h"
#include "sim/memory/slots.h"

namespace foregather::test {

namespace {

class Walk {
 public:
  explicit Walk(const Graph& graph)
      : graph_(graph), program_(graph.programs.front()), slots_(graph, program_) {}

  LiveStep perform(Section section) {
    LiveStep step;
    bool in_passes = false;
    bool in_optimizer = false;
    for (const sim::HostPoint& point : sim::host_order(program_, section)) {
      const Action& action = program_.threads[point.thread].actions(section)[point.index];
      if (action.kind == ActionKind::mark) {
        const auto phase = static_cast<Phase>(action.b);
        if (phase == Phase::forward && action.a == 0) {
          step.before = step.peak_of_passes = now_;
          in_passes = true;
        }
        if (phase == Phase::backward) step.after_forward = now_;
        if (phase == Phase::optimizer) {
          step.after_backward = step.peak_of_optimizer = now_;
          in_optimizer = true;
        }
      }
      change(action);
      if (in_optimizer && now_.total > step.peak_of_optimizer.total)
        step.peak_of_optimizer = now_;
      else if (in_passes && !in_optimizer && now_.total > step.peak_of_passes.total)
        step.peak_of_passes = now_;
    }
    step.after = now_;
    return step;
  }

 private:
  void change(const Action& action) {
    const auto changed = slots_.perform(action);
    if (!changed) return;
    const Storage& storage = graph_.storages[program_.storages.first + changed->storage];
    if (storage.on_host) return;
    const Bytes bytes = changed->bound ? storage.bytes : -storage.bytes;
    now_.by_cause[static_cast<std::size_t>(storage.cause)] += bytes;
    now_.total += bytes;
  }

  const Graph& graph_;
  const Program& program_;
  sim::Slots slots_;
  LiveNow now_;
};

}  // namespace

LiveSteps live_steps(const Graph& graph) {
  Walk walk(graph);
  walk.perform(Section::init);
  LiveSteps steps;
  steps.first = walk.perform(Section::first);
  walk.perform(Section::body);
  steps.steady = walk.perform(Section::body);
  return steps;
}

}  // namespace foregather::test
