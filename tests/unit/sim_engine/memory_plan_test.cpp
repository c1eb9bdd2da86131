// What the allocator does is planned while other threads ask for it.
#include <algorithm>
#include <array>
#include <random>
#include <thread>
#include <catch2/catch.hpp>

#include "core/ir/builder.h"
#include "sim/engine/engine.h"
#include "sim/engine/memory_plan.h"

namespace foregather::sim {
namespace {

// Steps of 10,000 actions whose blocks cross each other; half of the last is held to the next step.
Graph graph_of(std::uint32_t programs) {
  GraphBuilder b;
  for (std::uint32_t p = 0; p < programs; ++p) {
    b.begin_program("rank");
    const StreamId compute = b.stream("compute");
    b.thread("main");
    std::vector<StorageId> storages;
    for (int i = 0; i < 2500; ++i) {
      Storage storage;
      storage.bytes = 512 * (1 + (i * 7919 + static_cast<int>(p)) % 9000);
      storages.push_back(b.storage(storage));
    }
    for (const Section section : {Section::first, Section::body}) {
      b.select(0, section);
      for (int round = 0; round < 2; ++round) {
        for (const StorageId storage : storages) b.alloc(storage, compute);
        std::ranges::stable_partition(storages, [](StorageId s) { return s.row() % 3 != 0; });
        for (const StorageId storage : storages) b.free(storage);
      }
    }
    b.end_program();
    RankClass rank_class;
    rank_class.program = ProgramId(p);
    b.rank_class(rank_class, std::span(&p, 1));
  }
  return b.finish();
}

EngineOptions peaks_only(Bytes capacity = 0) {
  EngineOptions options;
  options.record_memory = false;
  options.capacity = capacity;
  return options;
}

Simulation simulated(const Graph& graph, const EngineOptions& options) {
  const std::vector<CostTable> prices(1);
  auto simulation = Engine(graph, options).simulate(prices);
  REQUIRE(simulation);
  return *std::move(simulation);
}

// Blocks of 0.5 to 40 MiB on two streams, taken and given back in an order of chance; some are kept
// from the end of one step to within the next.
Graph crossing_graph(std::uint32_t seed) {
  std::minstd_rand random(seed);
  const auto below = [&](std::size_t end) { return static_cast<std::size_t>(random() % end); };
  constexpr std::array<Bytes, 8> kSizes{1, 2, 3, 6, 24, 28, 40, 80};  // of half a MiB
  GraphBuilder b;
  b.begin_program("rank");
  const std::array streams{b.stream("compute"), b.stream("comm")};
  b.thread("main");
  std::vector<StorageId> storages;
  for (int i = 0; i < 12; ++i) {
    Storage storage;
    storage.bytes = kSizes[below(kSizes.size())] * MiB / 2;
    storages.push_back(b.storage(storage));
  }
  const std::size_t kept = below(4);
  for (const Section section : {Section::first, Section::body}) {
    b.select(0, section);
    std::vector<StorageId> idle(storages.begin(), storages.end()), held;
    if (section == Section::body) {
      held.assign(storages.begin(), storages.begin() + static_cast<std::ptrdiff_t>(kept));
      idle.erase(idle.begin(), idle.begin() + static_cast<std::ptrdiff_t>(kept));
    }
    const auto take = [&](std::size_t i) {
      b.alloc(idle[i], streams[idle[i].row() % 2]);
      held.push_back(idle[i]);
      idle.erase(idle.begin() + static_cast<std::ptrdiff_t>(i));
    };
    const auto give = [&](std::size_t i) {
      b.free(held[i]);
      idle.push_back(held[i]);
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(i));
    };
    for (int round = 0; round < 40; ++round)
      if (held.empty() || (!idle.empty() && below(2) == 0))
        take(below(idle.size()));
      else
        give(below(held.size()));
    while (!held.empty()) give(held.size() - 1);
    for (std::size_t i = 0; i < kept; ++i)
      take(static_cast<std::size_t>(std::ranges::find(idle, storages[i]) - idle.begin()));
  }
  b.end_program();
  RankClass rank_class;
  rank_class.program = ProgramId(0);
  constexpr std::uint32_t kRank = 0;
  b.rank_class(rank_class, std::span(&kRank, 1));
  return b.finish();
}

// The allocs and frees of one thread, step after step.
class Played {
 public:
  explicit Played(const Graph& graph)
      : program_(graph.programs[0]), memory_(graph, program_, {}, 0, clock_, false) {}

  MemoryPlan::Step step(std::size_t number) {
    MemoryPlan::Step step;
    step.calls.resize(1);
    memory_.begin_step(0);
    const auto& actions = program_.threads[0].sections[std::min(number, kSections - 1)];
    for (std::uint32_t i = 0; i < actions.size(); ++i) {
      if (actions[i].kind == ActionKind::alloc)
        memory_.alloc(actions[i].a, actions[i].stream, 0);
      else
        memory_.free(actions[i].a, 0);
      if (memory_.driver_calls() != nullptr) step.calls[0].push_back({i, *memory_.driver_calls()});
    }
    step.peaks = memory_.end_step(0).peaks;
    return step;
  }

 private:
  const Program& program_;
  alloc::InstantClock clock_;
  ClassMemory memory_;
};

}  // namespace

TEST_CASE("threads that ask for steps at once get those that one thread gets") {
  const Graph graph = graph_of(1);
  const auto plan = [&] { return MemoryPlan::make(graph, graph.programs[0], {}, 0); };
  const auto alone = plan(), shared = plan();
  REQUIRE(alone);
  std::vector<std::thread> threads;
  for (std::uint32_t first = 0; first < 4; ++first)
    threads.emplace_back([&shared, first] {
      for (std::uint32_t i = 0; i < 6; ++i) shared->step((first + i) % 6);
    });
  for (std::thread& thread : threads) thread.join();
  for (std::uint32_t number = 0; number < 6; ++number) {
    CAPTURE(number);
    CHECK(shared->step(number).peaks.reserved == alone->step(number).peaks.reserved);
    CHECK(shared->step(number).peaks.allocated == alone->step(number).peaks.allocated);
    CHECK(shared->step(number).calls == alone->step(number).calls);
  }
  CHECK(alone->step(1).peaks.reserved > 0);
}

TEST_CASE("what is planned ahead is what happens step by step") {
  for (const std::uint32_t programs : {1U, 5U}) {
    const Graph graph = graph_of(programs);
    const Simulation planned = simulated(graph, peaks_only());
    const Bytes peak = planned.classes[0].steady.peaks.reserved;
    REQUIRE(peak > 0);
    // Enough, and so little that the first step fails.
    for (const Bytes capacity : {Bytes{0}, peak / 2}) {
      EngineOptions recorded = peaks_only(capacity);
      recorded.record_memory = true;
      const Simulation a = simulated(graph, peaks_only(capacity)), b = simulated(graph, recorded);
      CHECK(a.oom.has_value() == b.oom.has_value());
      CHECK(a.oom.has_value() == (capacity != 0));
      for (std::size_t c = 0; c < a.classes.size(); ++c) {
        CHECK(a.classes[c].first.peaks.reserved == b.classes[c].first.peaks.reserved);
        CHECK(a.classes[c].steady.peaks.allocated == b.classes[c].steady.peaks.allocated);
      }
    }
  }
}

TEST_CASE("steps that are not planned are what playing them gives") {
  int grown = 0, settled = 0;
  for (std::uint32_t seed = 1; seed <= 400; ++seed) {
    CAPTURE(seed);
    const Graph graph = crossing_graph(seed);
    const auto plan = MemoryPlan::make(graph, graph.programs[0], {}, 0);
    REQUIRE(plan);
    Played played(graph);
    for (std::uint32_t number = 0; number < 8; ++number) {
      CAPTURE(number);
      const MemoryPlan::Step expected = played.step(number);
      const MemoryPlan::Step& step = plan->step(number);
      REQUIRE(step.calls == expected.calls);
      REQUIRE(step.peaks.requested == expected.peaks.requested);
      REQUIRE(step.peaks.allocated == expected.peaks.allocated);
      REQUIRE(step.peaks.active == expected.peaks.active);
      REQUIRE(step.peaks.reserved == expected.peaks.reserved);
      REQUIRE(step.peaks.by_cause == expected.peaks.by_cause);
      if (number < 2 || step.calls[0].empty()) continue;
      ++grown;
      settled += plan->step(number + 1).calls[0].empty() ? 1 : 0;
    }
  }
  CHECK(grown > settled);  // segments that came served another alloc in the next step
  CHECK(settled > 50);
}

TEST_CASE("an engine that is not used ends before its graph") {
  for (int i = 0; i < 20; ++i) {
    const Graph graph = graph_of(3);
    const Engine engine(graph, peaks_only());
  }
}

}  // namespace foregather::sim
