// order=memory on schedules.
#include <catch2/catch.hpp>

#include "core/base/text.h"
#include "core/ir/builder.h"
#include "core/ir/dump.h"
#include "sim/memory/memory_bound.h"
#include "tests/unit/passes/schedules.h"

using namespace foregather;
using namespace foregather::test;

namespace {

constexpr Bytes kTensor = 256 * 256 * 4;
constexpr Ns kHostDelay = 1000;

// Ops on one stream; each value is allocated before the op that makes it and freed after the last
// that reads it.
class Program {
 public:
  struct Value {
    StorageId storage;
    TensorId tensor;
  };

  Program() {
    builder.begin_program("trace");
    compute = builder.stream("compute");
    side = builder.stream("side");
    thread = builder.thread("python");
  }

  Value op(const std::vector<Value>& inputs, StreamId stream) {
    Storage row;
    row.bytes = kTensor;
    const StorageId storage = builder.storage(row);
    const Value made{storage, builder.whole(storage)};
    std::vector<AccessedTensor> accesses{{made.tensor, Access::write, 0, kTensor}};
    for (const Value& input : inputs) accesses.push_back({input.tensor, Access::read, 0, kTensor});
    Cost cost;
    cost.is_fixed = true;
    cost.fixed_time = 10;
    OpSpec spec;
    spec.kind = OpKind::other;
    spec.stream = stream;
    spec.cost = builder.cost(cost);
    steps.push_back({builder.op(spec, accesses), storage, inputs, stream});
    return made;
  }
  Value op(const std::vector<Value>& inputs) { return op(inputs, compute); }

  // The program order; `kept` is freed at the end. Streams follow each other throughout.
  Graph finish(Value kept) {
    const EventId event = builder.event();
    for (const Section section : {Section::first, Section::body}) {
      builder.select(thread, section);
      StreamId last = compute;
      for (std::size_t i = 0; i < steps.size(); ++i) {
        builder.alloc(steps[i].storage, compute);
        if (steps[i].stream != last) {
          builder.record(event, last);
          builder.wait(steps[i].stream, event);
          last = steps[i].stream;
        }
        if (has_delays) builder.host_delay(kHostDelay + static_cast<Ns>(i));
        builder.launch(steps[i].op);
        for (const Value& input : steps[i].inputs)
          if (input.storage != kept.storage && is_last_use(i, input)) {
            if (last != compute) {
              builder.record(event, last);
              builder.wait(compute, event);
            }
            builder.free(input.storage);
          }
      }
      if (last != compute) {
        builder.record(event, last);
        builder.wait(compute, event);
      }
      builder.free(kept.storage);
    }
    builder.end_program();
    RankClass all;
    all.program = ProgramId(0);
    builder.rank_class(all, std::vector<std::uint32_t>{0});
    return builder.finish();
  }

  bool is_last_use(std::size_t at, Value value) const {
    for (std::size_t i = at + 1; i < steps.size(); ++i)
      for (const Value& input : steps[i].inputs)
        if (input.storage == value.storage) return false;
    return true;
  }

  struct Step {
    OpId op;
    StorageId storage;
    std::vector<Value> inputs;
    StreamId stream;
  };
  GraphBuilder builder;
  StreamId compute, side;
  bool has_delays = false;  ///< of the host before the launch of op i: kHostDelay + i
  std::uint32_t thread = 0;
  std::vector<Step> steps;
};

// lightning-thunder issue 1337, stage by stage; the second stage runs on `stage_two`.
Graph by_stage(std::uint32_t paths, bool on_side, bool has_delays = false) {
  Program program;
  program.has_delays = has_delays;
  std::vector<Program::Value> values;
  for (std::uint32_t i = 0; i < paths; ++i) values.push_back(program.op({}));
  for (auto& value : values) value = program.op({value}, on_side ? program.side : program.compute);
  for (auto& value : values) value = program.op({value});
  std::optional<Program::Value> carried;
  for (const auto& value : values)
    carried = carried ? program.op({value, *carried}) : program.op({value});
  return program.finish(*carried);
}

}  // namespace

TEST_CASE("order=memory brings ten stages of ten paths to three tensors and proves it") {
  for (const bool on_side : {false, true}) {
    CAPTURE(on_side);
    const Graph before = by_stage(10, on_side);
    REQUIRE(problems(before) == "");
    CHECK(live_peak(before) == 11 * kTensor);
    CHECK(sim::peak_memory_bound(before) == 3 * kTensor);
    std::vector<sim::PassNote> notes;
    const Graph after = passed(before, {"order=memory"}, &notes);
    CHECK(problems(after) == "");
    CHECK(live_peak(after) == 3 * kTensor);
    CHECK(notes[0].did.find("proved the least") != std::string::npos);
    CHECK(keys(after) == keys(before));
    passed(after, {"order=memory"}, &notes);
    CHECK_FALSE(notes.back().changed);
  }
}

TEST_CASE("order=program keeps ten stages as they are and depth-first and list take path by path") {
  const Graph before = by_stage(10, false);
  std::vector<sim::PassNote> notes;
  CHECK(dump(passed(before, {"order=program"}, &notes)) == dump(before));
  CHECK_FALSE(notes[0].changed);
  CHECK(notes[0].did.find(format_bytes(11 * kTensor)) != std::string::npos);
  for (const char* order : {"order=depth-first", "order=list"}) {
    CAPTURE(order);
    const Graph after = passed(before, {order}, &notes);
    CHECK(problems(after) == "");
    CHECK(live_peak(after) == 3 * kTensor);
    // A path's four ops stand together.
    const auto ops = launches(after);
    for (std::uint32_t path = 0; path < 10; ++path)
      for (std::uint32_t stage = 0; stage < 4; ++stage)
        CHECK(after.at(ops[4 * path + stage]).ordinal == 10 * stage + path);
    passed(after, {order}, &notes);
    CHECK_FALSE(notes[0].changed);
  }
}

TEST_CASE("order=memory keeps the delays of the host before each launch") {
  const Graph before = by_stage(10, true, true);
  REQUIRE(problems(before) == "");
  const Graph after = passed(before, {"order=memory"});
  REQUIRE(problems(after) == "");
  REQUIRE(launches(after) != launches(before));
  std::size_t found = 0;
  Ns delay = 0;
  for (const Action& action : after.programs[0].threads[0].actions(Section::body)) {
    if (action.kind == ActionKind::host_delay) delay += Ns{action.a};
    if (action.kind != ActionKind::launch) continue;
    CHECK(delay == kHostDelay + Ns{action.a});
    delay = 0;
    ++found;
  }
  CHECK(found == launches(before).size());
  CHECK(delay == 0);
}

TEST_CASE("order=memory leaves schedules of several host threads and says so") {
  std::vector<sim::PassNote> notes;
  const tasks::Schedule tiny = sample_with("tiny_fsdp2", {"model.layers=2"});
  passed(tiny.graph, {"order=memory"}, &notes);
  CHECK_FALSE(notes[0].changed);
  CHECK(notes[0].did.find("several host threads") != std::string::npos);
}
