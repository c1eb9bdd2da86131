// FSDP1's rate limiter: the queue of free-events, replayed by hand.
#include <map>
#include <string>
#include <utility>
#include <vector>
#include <catch2/catch.hpp>

#include "core/plan/lower.h"
#include "sim/memory/host_order.h"
#include "tests/unit/plan/toy_model.h"

using namespace foregather;
using namespace foregather::plan;
using namespace foregather::test;

namespace {

constexpr std::uint32_t kLayers = 6;

Workload limited(Prefetch prefetch) {
  Workload workload = toy_workload(8);
  workload.parallel.strategy = Strategy::fsdp1;
  workload.parallel.backward_prefetch = prefetch;
  return workload;
}

Graph lowered_toy(const Workload& workload) {
  ToyShape shape;
  shape.layers = kLayers;
  const Result<Graph> graph = lower(toy_model(shape), workload);
  REQUIRE(graph);
  return *graph;
}

/// For each all-gather "PUNIT<EVENT…": phase (F, B), block ("-" for the root), and the events
/// (their phase and block) that the host waits for since the all-gather before.
class Gathers {
 public:
  explicit Gathers(Graph graph) : graph_(std::move(graph)), program_(graph_.programs[0]) {}

  std::vector<std::string> of(Section section) {
    for (const sim::HostPoint& point : sim::host_order(program_, section))
      hear(program_.threads[point.thread].actions(section)[point.index]);
    return std::exchange(list_, {});
  }

 private:
  std::string named(Phase phase, UnitId unit) const {
    const std::string_view scope = graph_.scope_name(graph_.at(unit).scope);
    return (phase == Phase::forward ? "F" : "B") +
           (scope.empty() ? std::string("-") : std::string(scope.substr(scope.find('.') + 1)));
  }

  void hear(const Action& action) {
    if (action.kind == ActionKind::mark) phase_ = static_cast<Phase>(action.b);
    if (action.kind == ActionKind::free &&
        graph_.storages[action.a].cause == Cause::unsharded_parameter)
      freed_ = named(phase_, graph_.storages[action.a].unit);
    if (action.kind == ActionKind::record && !freed_.empty()) {
      events_[action.a] = freed_;
      freed_.clear();
    }
    if (action.kind == ActionKind::host_wait_event) waited_ += '<' + events_.at(action.a);
    if (action.kind != ActionKind::launch) return;
    const Op& op = graph_.ops[action.a];
    if (op.kind == OpKind::all_gather)
      list_.push_back(named(phase_, op.unit) + std::exchange(waited_, {}));
  }

  const Graph graph_;
  const Program& program_;
  Phase phase_ = Phase::other;
  std::string freed_, waited_;
  std::map<std::uint32_t, std::string> events_;
  std::vector<std::string> list_;
};

using List = std::vector<std::string>;

}  // namespace

// PyTorch §G.5, with a root that is gathered first and whose pre-backward takes part, too.
TEST_CASE("the limiter of the first step waits as the table says") {
  SECTION("no prefetch") {
    CHECK(Gathers(lowered_toy(limited(Prefetch::none))).of(Section::first) ==
          List{"F-", "F0", "F1", "F2<F0", "F3<F1", "F4<F2", "F5<F3",  // forward
               "B5<F4", "B4<F5", "B3<B5", "B2<B4", "B1<B3", "B0<B2"});
  }
  SECTION("post") {
    CHECK(Gathers(lowered_toy(limited(Prefetch::post))).of(Section::first) ==
          List{"F-", "F0", "F1", "F2<F0", "F3<F1", "F4<F2", "F5<F3",  // forward
               "B5<F4", "B4<F5", "B3<B5", "B2<B4", "B1<B3", "B0<B2"});
  }
  SECTION("pre: one more destination") {
    CHECK(Gathers(lowered_toy(limited(Prefetch::pre))).of(Section::first) ==
          List{"F-", "F0", "F1", "F2<F0", "F3<F1", "F4<F2", "F5<F3",  // forward
               "B5<F4", "B4", "B3<F5", "B2<B5", "B1<B4", "B0<B3"});
  }
}

TEST_CASE("the limiter's queue lives on from step to step") {
  Gathers gathers(lowered_toy(limited(Prefetch::pre)));
  gathers.of(Section::first);
  CHECK(gathers.of(Section::body) == List{"F-<B2", "F0<B1", "F1<B0", "F2<B-", "F3<F0", "F4<F1",
                                          "F5<F2",  // forward
                                          "B5<F3<F4", "B4", "B3<F5", "B2<B5", "B1<B4", "B0<B3"});
}

// A unit frees once a step, so that the queue's older event is of two steps ago.
TEST_CASE("with the whole model as one unit the limiter waits for the step before the last one") {
  Workload workload = limited(Prefetch::pre);
  workload.parallel.wrap = Wrap::model;
  const Graph graph = lowered_toy(workload);
  const std::vector<HostThread>& threads = graph.programs[0].threads;
  std::vector<std::uint32_t> awaited;
  for (const HostThread& thread : threads)
    for (const Action& action : thread.actions(Section::body))
      if (action.kind == ActionKind::host_wait_event) awaited.push_back(action.a);
  REQUIRE(awaited.size() == 1);
  // That event is recorded where the compute stream's latest free-event is about to be recorded
  // again, on a stream that waits for it.
  for (const Section section : {Section::first, Section::body}) {
    std::size_t kept = 0;
    for (const HostThread& thread : threads) {
      const std::span<const Action> actions = thread.actions(section);
      for (std::size_t i = 1; i + 1 < actions.size(); ++i) {
        if (actions[i].kind != ActionKind::record || actions[i].a != awaited[0]) continue;
        ++kept;
        CHECK(actions[i - 1].kind == ActionKind::wait);
        CHECK(actions[i - 1].stream == actions[i].stream);
        CHECK(actions[i + 1].kind == ActionKind::record);
        CHECK(actions[i + 1].a == actions[i - 1].a);
        CHECK(actions[i + 1].stream != actions[i].stream);
      }
    }
    CHECK(kept == 1);
  }
}

TEST_CASE("without the limiter the host never waits for events") {
  Workload workload = limited(Prefetch::pre);
  workload.parallel.limit_all_gathers = false;
  const Graph graph = lowered_toy(workload);
  for (const HostThread& thread : graph.programs[0].threads)
    for (const Section section : {Section::first, Section::body})
      for (const Action& action : thread.actions(section))
        CHECK(action.kind != ActionKind::host_wait_event);
}
