// Passes on traces that lightning-thunder 0.2.3 printed, against what it printed of the same model
// with another setting. tests/oracles/README.md says how they were recorded.
#include <map>
#include <catch2/catch.hpp>

#include "core/ir/names.h"
#include "tests/unit/passes/schedules.h"

using namespace foregather;
using namespace foregather::test;

namespace {

using Strings = std::vector<std::string>;

Graph recorded(const std::string& name) {
  const std::string path = FOREGATHER_SOURCE_DIR "/tests/oracles/data/thunder/0.2.3_" + name;
  auto schedule = tasks::load_schedule(path + "_forward.txt", {}, {}, path + "_backward.txt");
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

/// What a trace holds at its two ends, and the bytes its gathers move.
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

TEST_CASE("Thunder's orders are those that its own passes leave") {
  for (const char* zero3 : {"zero3_none"}) {
    CAPTURE(zero3);
    const Graph graph = recorded(zero3);
    CHECK(symbols(passed(graph, {"sort-communication", "in-flight=3"})) == symbols(graph));
  }
}
