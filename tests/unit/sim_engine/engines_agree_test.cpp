// The fast engine against the slow one on random schedules.
#include <catch2/catch.hpp>
#include <rapidcheck/catch.h>

#include "random_graph.h"
#include "slow_engine.h"
#include "sim/engine/engine.h"

namespace foregather::sim {
namespace {

std::vector<SlowTime> as_slow(const StepResult& step) {
  std::vector<SlowTime> times(step.ops.size());
  for (std::size_t i = 0; i < times.size(); ++i)
    if (step.ran[i] != 0)
      times[i] = {step.ops[i].issued, step.ops[i].start, step.ops[i].transfer, step.ops[i].end};
  return times;
}

// 1 if the fast engine could be compared, 0 if the job deadlocks (both must say so).
void compare(std::uint64_t seed, std::uint32_t ops, bool contention) {
  const RandomJob job = random_job(seed, ops);
  EngineOptions options;
  options.contention = contention;
  options.memory = false;
  const Result<Simulation> fast = simulate(job.graph, job.prices, options);
  if (!fast) {
    RC_ASSERT_THROWS(simulate_slowly(job.graph, job.prices, contention, 3));
    RC_DISCARD("deadlock");
  }
  const auto slow = simulate_slowly(job.graph, job.prices, contention, fast->steps);
  for (std::size_t c = 0; c < slow.size(); ++c) {
    RC_ASSERT(as_slow(fast->classes[c].first) == slow[c][1]);
    RC_ASSERT(as_slow(fast->classes[c].steady) == slow[c][fast->steps]);
  }
}

}  // namespace

TEST_CASE("the engines agree without contention") {
  rc::prop("on random schedules", [] {
    compare(*rc::gen::arbitrary<std::uint64_t>(), *rc::gen::inRange<std::uint32_t>(1, 40), false);
  });
}

TEST_CASE("the engines agree with contention") {
  rc::prop("on random schedules", [] {
    compare(*rc::gen::arbitrary<std::uint64_t>(), *rc::gen::inRange<std::uint32_t>(1, 40), true);
  });
}

}  // namespace foregather::sim
