// What the allocator does is planned while other threads ask for it.
#include <algorithm>
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

TEST_CASE("an engine that is not used ends before its graph") {
  for (int i = 0; i < 20; ++i) {
    const Graph graph = graph_of(3);
    const Engine engine(graph, peaks_only());
  }
}

}  // namespace foregather::sim
