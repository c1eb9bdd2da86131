// What repeats in a steady step is mostly taken from the first step.
#include <algorithm>
#include <vector>
#include <catch2/catch.hpp>
#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "random_graph.h"
#include "core/ir/builder.h"
#include "sim/engine/repeats.h"
#include "sim/engine/signature.h"

namespace foregather::sim {
namespace {

constexpr auto kFirst = static_cast<std::size_t>(Section::first);
constexpr auto kBody = static_cast<std::size_t>(Section::body);

// Each section by itself.
ProgramRepeats one_by_one(const Graph& graph, const Program& program) {
  ProgramRepeats all;
  for (const HostThread& thread : program.threads) {
    auto& sections = all.emplace_back();
    for (std::size_t section = 0; section < kSections; ++section)
      sections[section] = find_repeats(graph, program, thread.sections[section]);
  }
  return all;
}

// Near where something repeats, or anywhere.
void edit(std::vector<Action>& actions, const std::vector<Repeat>& repeats, Range events) {
  auto place = *rc::gen::inRange<std::size_t>(0, actions.size() + 1);
  if (!repeats.empty() && *rc::gen::arbitrary<bool>()) {
    const Repeat& repeat = *rc::gen::elementOf(repeats);
    place = repeat.begin + repeat.period * *rc::gen::inRange(0U, repeat.count + 1);
  }
  const auto at = actions.begin() + static_cast<std::ptrdiff_t>(std::min(place, actions.size()));
  switch (*rc::gen::inRange(0, 4)) {
    case 0:
      if (at != actions.end()) actions.erase(at);
      break;
    case 1: actions.insert(at, Action{ActionKind::mark, {}, 0, 0}); break;
    case 2: actions.erase(at, actions.end()); break;
    default:
      if (events.count > 0)
        actions.insert(at, {ActionKind::record, StreamId(0),
                            events.first + *rc::gen::inRange(0U, events.count), 0});
  }
}

}  // namespace

TEST_CASE("what repeats in a section does not depend on what repeats in the one before") {
  rc::prop("sections that differ in an action or two", [] {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    Graph graph = random_job(seed, *rc::gen::inRange(0U, 12U), *rc::gen::inRange(4U, 16U)).graph;
    Program& program = graph.programs.front();
    for (HostThread& thread : program.threads) {
      std::vector<Action>& first = thread.sections[kFirst];
      std::vector<Action>& body = thread.sections[kBody];
      if (first.empty()) first = body;
      body = first;
      const std::vector<Repeat> repeats = find_repeats(graph, program, first);
      for (int edits = *rc::gen::inRange(0, 3); edits > 0; --edits)
        edit(*rc::gen::arbitrary<bool>() ? first : body, repeats, program.events);
    }
    RC_ASSERT(find_repeats(graph, program) == one_by_one(graph, program));
  });
}

TEST_CASE("schedules that repeat alike have the same repeats") {
  rc::prop("a schedule and what differs from it a little, or in sizes alone", [] {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    const Graph graph =
        random_job(seed, *rc::gen::inRange(0U, 12U), *rc::gen::inRange(4U, 16U)).graph;
    Graph other = graph;
    for (Cost& cost : other.costs) cost.bytes_read += 64;
    for (Storage& storage : other.storages) storage.bytes += 512;
    const Program& program = graph.programs.front();
    Program& changed = other.programs.front();
    const auto repeat_alike = [&] {
      return actions_signature(program) == actions_signature(changed) &&
             launches_signature(graph, program) == launches_signature(other, changed);
    };
    RC_ASSERT(repeat_alike());
    RC_ASSERT(find_repeats(graph, program) == find_repeats(other, changed));

    const ProgramRepeats repeats = find_repeats(graph, program);
    const auto thread = *rc::gen::inRange<std::size_t>(0, program.threads.size());
    const bool edits_actions = *rc::gen::arbitrary<bool>();
    if (edits_actions) {
      edit(changed.threads[thread].sections[kBody], repeats[thread][kBody], program.events);
    } else if (program.ops.count > 0) {
      Op& op = other.ops[program.ops.first + *rc::gen::inRange(0U, program.ops.count)];
      op.cost = CostId(
          *rc::gen::inRange<std::uint32_t>(0, static_cast<std::uint32_t>(other.costs.size())));
    }
    if (find_repeats(graph, program) != find_repeats(other, changed))
      RC_ASSERT_FALSE(repeat_alike());
  });
}

namespace {

// Blocks that wait for the block before, so many in the first step and in a steady one; `apart`:
// there something is recorded between the first two.
Graph blocks(std::uint32_t in_first, std::uint32_t in_body, bool apart) {
  GraphBuilder b;
  b.begin_program("rank");
  const StreamId stream = b.stream("compute");
  b.thread("main");
  std::vector<EventId> events;
  std::vector<OpId> ops;
  for (std::uint32_t block = 0; block < std::max(in_first, in_body); ++block) {
    events.push_back(b.event());
    Cost cost;
    cost.kind = OpKind::attention;
    OpSpec spec;
    spec.kind = OpKind::attention;
    spec.stream = stream;
    spec.cost = b.cost(cost);
    ops.push_back(b.op(spec));
  }
  const EventId extra = b.event();
  for (const Section section : {Section::first, Section::body}) {
    b.select(0, section);
    const bool is_body = section == Section::body;
    for (std::uint32_t block = 0; block < (is_body ? in_body : in_first); ++block) {
      if (block == 1 && is_body && apart) b.record(extra, stream);
      b.launch(ops[block]);
      b.record(events[block], stream);
      if (block > 0) b.wait(stream, events[block - 1]);
    }
  }
  b.end_program();
  return b.finish();
}

}  // namespace

TEST_CASE("waits of the first period may mean other records in a steady step") {
  const Graph graph = blocks(8, 8, true);
  const Program& program = graph.programs.front();
  const ProgramRepeats repeats = find_repeats(graph, program);
  REQUIRE(repeats.front()[kFirst].size() == 1);
  REQUIRE(repeats.front()[kBody].size() == 1);
  CHECK(repeats.front()[kFirst].front().begin == 2);     // the second block
  CHECK(repeats.front()[kBody].front().begin == 3 + 3);  // the third one
  CHECK(repeats == one_by_one(graph, program));
}

TEST_CASE("a steady step may have more or fewer periods than the first step") {
  for (const std::uint32_t in_body : {7U, 9U}) {
    const Graph graph = blocks(8, in_body, false);
    const ProgramRepeats repeats = find_repeats(graph, graph.programs.front());
    REQUIRE(repeats.front()[kFirst].size() == 1);
    REQUIRE(repeats.front()[kBody].size() == 1);
    CHECK(repeats.front()[kFirst].front().count == 7);
    CHECK(repeats.front()[kBody].front().count == in_body - 1);
  }
}

}  // namespace foregather::sim
