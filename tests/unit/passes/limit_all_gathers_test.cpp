// FSDP1's rate limiter, changed and added.
#include <algorithm>
#include <catch2/catch.hpp>

#include "core/ir/dump.h"
#include "tests/unit/passes/schedules.h"

using namespace foregather;
using namespace foregather::test;

namespace {

std::size_t host_waits(const Graph& graph) {
  std::size_t waits = 0;
  for (const HostThread& thread : graph.programs.front().threads)
    for (const Action& action : thread.actions(Section::body))
      waits += action.kind == ActionKind::host_wait_event ? 1 : 0;
  return waits;
}

/// The most frees of gathered parameters that the host has not waited for when it issues a gather.
int most_queued(const Graph& graph) {
  int queued = 0;
  int most = 0;
  for (const Section section : {Section::first, Section::body, Section::body, Section::body})
    for (const HostThread& thread : graph.programs.front().threads)
      for (const Action& action : thread.actions(section)) {
        if (action.kind == ActionKind::host_wait_event) --queued;
        if (action.kind == ActionKind::free &&
            graph.storages[action.a].cause == Cause::unsharded_parameter)
          ++queued;
        if (action.kind == ActionKind::launch && graph.ops[action.a].role == Role::gather)
          most = std::max(most, queued);
      }
  return most;
}

}  // namespace

TEST_CASE("limit-all-gathers=2 is PyTorch's own limiter") {
  for (const char* layers : {"model.layers=1", "model.layers=3", "model.layers=6"})
    for (const char* prefetch : {"none", "pre", "post"}) {
      CAPTURE(layers, prefetch);
      const std::string how = std::string("parallel.backward_prefetch=") + prefetch;
      const Graph limited = sample_with("llama2_7b_fsdp1", {layers, how}).graph;
      std::vector<sim::PassNote> notes;
      CHECK(dump(passed(limited, {"limit-all-gathers=2"}, &notes)) == dump(limited));
      CHECK_FALSE(notes.at(0).changed);
      const Graph free =
          sample_with("llama2_7b_fsdp1", {layers, how, "parallel.limit_all_gathers=false"}).graph;
      CHECK(host_waits(passed(limited, {"limit-all-gathers=none"})) == host_waits(free));
    }
}

TEST_CASE("limit-all-gathers=N makes each gather wait for one free, N or more after it") {
  // 4 units, 3 of them freed after forward, 4 after backward; 4 + 3 gathers a step. The last gather
  // leaves N − 1 in the queue; three more are freed before the next step's first takes one out.
  const Graph none =
      passed(sample_with("llama2_7b_fsdp1", {"model.layers=3"}).graph, {"limit-all-gathers=none"});
  REQUIRE(count(none, Role::gather) == 7);
  CHECK(host_waits(none) == 0);
  CHECK(most_queued(none) == 4 * 7 - 3);
  for (const int most : {1, 2, 3, 5}) {
    CAPTURE(most);
    const Graph limited = passed(none, {"limit-all-gathers=" + std::to_string(most)});
    CHECK(host_waits(limited) == 7);  // as many as frees: the queue keeps its length
    CHECK(most_queued(limited) == most + 1);
    CHECK(problems(limited) == "");
    CHECK(host_waits(passed(limited, {"limit-all-gathers=none"})) == 0);
  }
}

TEST_CASE("limit-all-gathers=N adds a limiter to schedules that have none") {
  const Graph fsdp2 = sample_with("tiny_fsdp2", {"model.layers=3"}).graph;
  CHECK(host_waits(fsdp2) == 0);
  CHECK(host_waits(passed(fsdp2, {"limit-all-gathers=1"})) == count(fsdp2, Role::gather));
  std::vector<sim::PassNote> notes;
  (void)passed(sample_with("gpt2_ddp", {"model.layers=2"}).graph, {"limit-all-gathers=2"}, &notes);
  CHECK_FALSE(notes.at(0).changed);
  CHECK(notes.at(0).did == "the schedule has no gathers");
}

TEST_CASE("limit-all-gathers=2 leaves units alone whose parameters nothing reads in the backward") {
  for (const char* sample : {"wrap_everything_fsdp1", "late_prefetch_fsdp1"}) {
    CAPTURE(sample);
    const Graph limited = sample_with(sample, {}).graph;
    std::vector<sim::PassNote> notes;
    CHECK(dump(passed(limited, {"limit-all-gathers=2"}, &notes)) == dump(limited));
    CHECK_FALSE(notes.at(0).changed);
  }
}
