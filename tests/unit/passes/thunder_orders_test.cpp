// Passes on traces that lightning-thunder 0.2.3 printed, against what it printed of the same model
// with another setting. tests/oracles/README.md says how they were recorded.
#include <map>
#include <catch2/catch.hpp>

#include "core/ir/names.h"
#include "tests/support/places.h"
#include "tests/unit/passes/schedules.h"

using namespace foregather;
using namespace foregather::test;

namespace {

using Strings = std::vector<std::string>;

Graph recorded(const std::string& name) {
  const std::string path = test::source_dir() + "/tests/oracles/data/thunder/0.2.3_" + name;
  auto schedule = tasks::load_schedule(
      tasks::Sources{{path + "_forward.txt", path + "_backward.txt"}, true, {}}, {}, {});
  REQUIRE(schedule.has_value());
  return std::move(schedule->graph);
}

/// What a trace prints of a step that costs time: ops by kind, role, FLOPs and bytes, and waits
/// for collectives, in their order.
Strings symbols(const Graph& graph) {
  Strings all;
  std::map<std::uint32_t, std::string> events;
  const std::vector<Action>& actions = graph.programs.front().threads.front().sections.back();
  for (std::size_t at = 0; at < actions.size(); ++at) {
    const Action& action = actions[at];
    if (action.kind == ActionKind::launch) {
      const Op& op = graph.ops[action.a];
      const Cost& cost = graph.at(op.cost);
      const Bytes bytes = is_collective(op.kind) ? cost.message_bytes : cost.bytes_written;
      all.push_back(fmt::format("{} {} {} {} {}", name(op.phase), name(op.kind), name(op.role),
                                cost.flops, bytes));
    }
    if (action.kind == ActionKind::record) {
      std::size_t launch = at;
      while (launch > 0 && actions[launch].kind != ActionKind::launch) --launch;
      const bool is_its = actions[launch].kind == ActionKind::launch &&
                          graph.ops[actions[launch].a].stream == action.stream &&
                          is_collective(graph.ops[actions[launch].a].kind);
      events[action.a] = is_its ? "wait for " + all.back() : "";
    }
    if (action.kind == ActionKind::wait && !events[action.a].empty())
      all.push_back(events[action.a]);
  }
  return all;
}

void check_same(const Graph& ours, const Graph& theirs) {
  CHECK(problems(ours) == "");
  CHECK(symbols(ours) == symbols(theirs));
}

}  // namespace

TEST_CASE("Thunder's ZeRO-2 becomes its ZeRO-3") {
  const Graph zero2 = recorded("zero2_none");
  const Strings thunders{"rematerialize-all-gather", "sort-communication", "in-flight=3"};
  const Graph zero3 = recorded("zero3_none");
  CHECK(count(zero2, Role::gather) == 4);
  CHECK(count(zero3, Role::gather) == 5);
  CHECK(symbols(zero2) != symbols(zero3));
  check_same(passed(zero2, thunders), zero3);
  // Of the four parameters only the second weight, 8×32 fp32, is used in the backward.
  CHECK(gathered_bytes(passed(zero2, thunders)) - gathered_bytes(zero2) == 8 * 32 * 4);
  // And back: the second gather goes.
  CHECK(gathered_bytes(passed(zero3, {"reshard=never"})) == gathered_bytes(zero2));
}

TEST_CASE("Thunder's traces are in the orders that its passes give") {
  const auto keeps = [](const std::string& name, const Strings& passes) {
    CAPTURE(name, passes);
    const Graph graph = recorded(name);
    CHECK(symbols(passed(graph, passes)) == symbols(graph));
  };
  for (const char* by : {"none", "layer", "block"}) {
    keeps(std::string("zero3_") + by, {"sort-communication", "in-flight=3"});
    keeps(std::string("zero2_") + by, {"sort-communication", "in-flight=unlimited"});
  }
  // sort-waits is what the backwards of ZeRO-2 and DDP had; none of their forwards, where gathers
  // would go by size.
  for (const char* name : {"ddp", "ddp_no_bucket", "zero2_layer", "zero2_block"})
    keeps(name, {"sort-waits"});
}

TEST_CASE("bucket= packs what Thunder packs, in its order") {
  for (const std::string zero : {"zero2", "zero3"})
    for (const std::string by : {"layer", "block"}) {
      CAPTURE(zero, by);
      const Graph theirs = recorded(zero + "_" + by);
      const Graph ours = passed(recorded(zero + "_none"), {"bucket=" + by});
      check_same(ours, theirs);
      CHECK(live_peak(ours) == live_peak(theirs));
    }
}

TEST_CASE("Thunder's passes compose: ZeRO-2 becomes bucketed ZeRO-3") {
  for (const std::string by : {"layer", "block"}) {
    CAPTURE(by);
    check_same(passed(recorded("zero2_none"), {"rematerialize-all-gather", "bucket=" + by,
                                               "sort-communication", "in-flight=3"}),
               recorded("zero3_" + by));
  }
}

TEST_CASE("bucket=SIZE closes a bucket with the collective that reaches the size") {
  // Gathered in turn: 128, 2048, 32 and 1024 bytes; reduced: 1024, 32, 2048, 128.
  const Graph zero2 = recorded("zero2_none");
  const auto messages = [](const Graph& graph, Role role) {
    std::vector<Bytes> all;
    for (const OpId op : launches(graph))
      if (graph.at(op).role == role) all.push_back(graph.at(graph.at(op).cost).message_bytes);
    return all;
  };
  const auto bucketed = [&](const char* text) { return passed(zero2, {text}); };
  CHECK(messages(bucketed("bucket=129B"), Role::gather) == std::vector<Bytes>{2176, 1056});
  CHECK(messages(bucketed("bucket=129B"), Role::reduce) == std::vector<Bytes>{1024, 2080, 128});
  CHECK(messages(bucketed("bucket=2KiB"), Role::gather) == std::vector<Bytes>{2176, 1056});
  CHECK(messages(bucketed("bucket=2KiB"), Role::reduce) == std::vector<Bytes>{3104, 128});
  CHECK(messages(bucketed("bucket=1GiB"), Role::gather) == std::vector<Bytes>{3232});
  // Shards in, parameters out; the last are twice the first on two ranks.
  Bytes packed = 0, unpacked = 0;
  const Graph graph = bucketed("bucket=1GiB");
  for (const OpId id : launches(graph)) {
    const Op& op = graph.at(id);
    if (op.phase != Phase::forward) continue;
    if (op.role == Role::copy_in) packed += graph.at(op.cost).bytes_written;
    if (op.role == Role::copy_out) unpacked += graph.at(op.cost).bytes_written;
  }
  CHECK(packed == 1616);
  CHECK(unpacked == 3232);
  std::vector<sim::PassNote> notes;
  (void)passed(zero2, {"bucket=1B"}, &notes);
  CHECK_FALSE(notes.at(0).changed);
}
