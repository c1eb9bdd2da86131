#include "gui/models/memory.h"

#include <numeric>
#include <catch2/catch.hpp>

#include "tests/support/example_run.h"
#include "tests/unit/gui/opened.h"

using namespace foregather;
using namespace foregather::gui;
using test::opened;

TEST_CASE("memory: the peaks of the picture are those of the run") {
  const Session session = opened({test::simulated_tiny({})});
  const RankStep& rank = *session.pairs()[0].sides[0];
  const run::StepInfo& step = session.run(0).steps[rank.step.row()];
  const RankMemory memory(session, 0, rank);
  const TimeRange all = session.extent();
  const auto highest = [&](const StepCurve& curve) { return curve.value(curve.highest(all)); };
  CHECK(highest(memory.curve(MemoryCurve::requested)) == step.peak_requested);
  CHECK(highest(memory.curve(MemoryCurve::allocated)) == step.peak_allocated);
  CHECK(highest(memory.curve(MemoryCurve::active)) == step.peak_active);
  CHECK(highest(memory.curve(MemoryCurve::reserved)) == step.peak_reserved);
  const std::size_t peak = memory.total().highest(all);
  CHECK(memory.total().value(peak) == step.peak_allocated);
  const BytesByCause held = memory.by_cause(peak);
  CHECK(std::accumulate(held.begin(), held.end(), Bytes{0}) == step.peak_allocated);
  for (std::size_t cause = 0; cause < kCauses; ++cause)
    CHECK(held[cause] == rank.memory.by_cause[cause]);
}

TEST_CASE("memory: causes and holders agree at any time") {
  const Session session = opened({test::simulated_tiny({})});
  const RankMemory memory(session, 0, *session.pairs()[0].sides[0]);
  for (std::size_t point = 0; point < memory.total().size(); point += 37) {
    const Ns time = memory.total().time(point);
    const std::size_t now = memory.total().at(time);
    Bytes bytes = 0;
    BytesByCause by_cause{};
    for (const Holder& holder : memory.holders(time)) {
      bytes += holder.bytes;
      by_cause[static_cast<std::size_t>(holder.cause)] += holder.bytes;
    }
    CHECK(bytes == memory.total().value(now));
    CHECK(by_cause == memory.by_cause(now));
  }
  CHECK(memory.holders(session.extent().begin - 1).empty());
}

TEST_CASE("memory: capacity, what is outside, and where it ran out") {
  run::Run run = test::example_run();
  run.about.outside_allocator = 1 * GiB;
  run.failures.clear();
  run::FailureRecord failure;
  failure.step = run::StepRow(0);
  failure.name = run.text("logits");
  failure.bytes = 4096;
  failure.time = 120;
  run.failures.push_back(failure);
  const Session session = opened({std::move(run)});
  const RankMemory memory(session, 0, *session.pairs()[0].sides[0]);
  CHECK(memory.limit() == 79 * GiB);
  REQUIRE(memory.ooms().size() == 1);
  CHECK(memory.ooms()[0].time == 30);
  CHECK(memory.ooms()[0].name == "logits");
  const RankMemory other(session, 0, *session.pairs()[1].sides[0]);
  CHECK(other.ooms().empty());
  CHECK(memory.headroom(session.extent()) == 79 * GiB - 2048);
  CHECK_FALSE(other.headroom({-100, -99}));
  // The trace goes on: the job caught it.
  CHECK(memory.curve(MemoryCurve::reserved).end() == session.extent().end);
}

TEST_CASE("memory: the shorter of two runs has no memory behind its end") {
  run::Run shorter = test::example_run(), longer = test::example_run();
  shorter.failures.clear();
  longer.failures.clear();
  longer.steps[0].end = 400;
  const Session session = opened({std::move(shorter), std::move(longer)});
  const RankMemory memory(session, 0, *session.pairs()[0].sides[0]);
  CHECK(memory.curve(MemoryCurve::reserved).end() == 60);
  CHECK(memory.total().end() == 60);
  CHECK_FALSE(memory.headroom({61, 300}));
  const RankMemory other(session, 1, *session.pairs()[0].sides[1]);
  CHECK(other.curve(MemoryCurve::reserved).end() == 310);
}

TEST_CASE("memory: what happens last is shown, also behind the last step") {
  run::Run run = test::example_run();
  run.failures.clear();
  run.memory[1].time = 500;
  run.memory[1].reserved = 8192;
  const Session session = opened({std::move(run)});
  const RankMemory memory(session, 0, *session.pairs()[0].sides[0]);
  const StepCurve& reserved = memory.curve(MemoryCurve::reserved);
  CHECK(reserved.value(reserved.highest(TimeRange{0, 1000})) == 8192);
}

TEST_CASE("memory: a rank that ran out of memory last has no memory behind that") {
  const Session session = opened({test::example_run()});
  const RankMemory memory(session, 0, *session.pairs()[0].sides[0]);
  REQUIRE(memory.ooms().size() == 1);
  const Ns end = memory.ooms()[0].time;
  CHECK(memory.curve(MemoryCurve::reserved).end() == end);
  memory.curve(MemoryCurve::reserved)
      .columns({end - 10, end + 100}, 1, [&](Ns, Ns last, std::size_t) { CHECK(last <= end); });
  CHECK_FALSE(memory.holders(end - 20).empty());
  CHECK(memory.holders(end + 1).empty());
  CHECK(memory.headroom({end - 1, end + 100}));
  CHECK_FALSE(memory.headroom({end, end + 100}));
}
