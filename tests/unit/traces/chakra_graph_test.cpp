// From Chakra traces to a schedule: what becomes of each kind of node.
#include "traces/chakra_graph.h"

#include <catch2/catch.hpp>

#include "core/ir/validate.h"
#include "tests/support/chakra_bytes.h"
#include "traces/ready_order.h"

using namespace foregather;
using namespace foregather::traces;
using test::attribute;
using test::chakra_file;
using test::collective;

namespace {

ChakraTrace read_chakra_trace(const std::string& bytes) {
  const auto source = text_of(bytes);
  return read_chakra(*source, "t.et").value();
}

Graph graph_of(const ChakraTrace& trace, std::uint32_t world = 1) {
  const ChakraClass alone[] = {{&trace, {0}}};
  ChakraGraphOptions options;
  options.world_size = world;
  auto graph = chakra_graph(alone, options);
  if (!graph) FAIL(graph.error().text());
  const auto problems = validate(graph->graph, 1);
  if (!problems.empty()) FAIL(problems.front().message);
  return std::move(graph->graph);
}

const Cost& cost_of(const Graph& graph, std::size_t op) { return graph.at(graph.ops[op].cost); }

}  // namespace

TEST_CASE("each kind of node has its cost") {
  const Graph graph = graph_of(read_chakra_trace(chakra_file(
      {{1, "timed", 4, {}, {}, 12, {attribute("num_ops", 5)}},
       {2, "work", 4, {}, {1}, 0, {attribute("num_ops", 1000), attribute("tensor_size", 64)}},
       {3, "load", 2, {}, {2}, 0, {attribute("tensor_size", 4096)}},
       {4, "host", 7, {}, {3}, 7, {attribute("is_cpu_op", 1)}},
       {5, "empty", 1, {}, {4}}})));
  REQUIRE(graph.ops.size() == 5);
  CHECK(cost_of(graph, 0).is_fixed);
  CHECK(cost_of(graph, 0).fixed_time == 12'000);
  CHECK_FALSE(cost_of(graph, 1).is_fixed);
  CHECK(cost_of(graph, 1).flops == 1000);
  CHECK(cost_of(graph, 1).bytes_read == 64);
  CHECK(graph.ops[2].kind == OpKind::host_to_device);
  CHECK(cost_of(graph, 2).bytes_written == 4096);
  CHECK_FALSE(graph.ops[3].communicator);
  CHECK(cost_of(graph, 3).fixed_time == 7'000);
  CHECK(cost_of(graph, 4).fixed_time == 0);
  CHECK(graph.scope_name(graph.ops[2].scope) == "load");
  CHECK(graph.deps_of(graph.ops[3]).front() == OpId(2));
}

TEST_CASE("an all-gather's size is a shard, the others' the whole buffer") {
  const Graph graph =
      graph_of(read_chakra_trace(
                   chakra_file({collective(1, "a", 2, 100, {}), collective(2, "b", 7, 100, {1}),
                                collective(3, "c", 0, 100, {2}), collective(4, "d", 3, 100, {3})})),
               8);
  CHECK(graph.ops[0].kind == OpKind::all_gather);
  CHECK(cost_of(graph, 0).message_bytes == 800);
  CHECK(graph.ops[1].kind == OpKind::reduce_scatter);
  CHECK(cost_of(graph, 1).message_bytes == 100);
  CHECK(cost_of(graph, 2).message_bytes == 100);
  CHECK(graph.ops[3].kind == OpKind::send_recv);
  CHECK(cost_of(graph, 3).message_bytes == 700);
  CHECK(graph.world_size == 8);
  CHECK(graph.ranks_of(graph.classes.front().ranks).size() == 8);
}

TEST_CASE("each kind of collective is one of ours") {
  // By the numbers of the schema: reduce, broadcast, all-to-all, barrier.
  const Graph graph =
      graph_of(read_chakra_trace(
                   chakra_file({collective(1, "a", 1, 100, {}), collective(2, "b", 5, 100, {1}),
                                collective(3, "c", 6, 100, {2}), collective(4, "d", 9, 0, {3})})),
               8);
  std::vector<OpKind> kinds;
  for (const Op& op : graph.ops) kinds.push_back(op.kind);
  CHECK(kinds ==
        std::vector{OpKind::reduce, OpKind::broadcast, OpKind::all_to_all, OpKind::barrier});
  CHECK(cost_of(graph, 0).message_bytes == 100);
  CHECK(cost_of(graph, 1).message_bytes == 100);
}

TEST_CASE("ranks whose dependencies ask for other orders of collectives are an error") {
  const auto ordered = [](bool first_waits) {
    std::vector<std::uint64_t> none, after_b{2}, after_a{1};
    return read_chakra_trace(
        chakra_file({collective(1, "a", 0, 100, first_waits ? after_b : none),
                     collective(2, "b", 0, 100, first_waits ? none : after_a)}));
  };
  const ChakraTrace one = ordered(false), other = ordered(true);
  const ChakraClass classes[] = {{&one, {0}}, {&other, {1}}};
  const auto made = chakra_graph(classes, {});
  REQUIRE_FALSE(made);
  CHECK(made.error().text() ==
        "t.et: its dependencies do not allow the order of collectives that the first rank's have, "
        "expected one order on all ranks");
  ChakraGraphOptions options;
  options.world_size = 0xffffffff;
  const ChakraClass alone[] = {{&one, {0}}};
  const auto many = chakra_graph(alone, options);
  REQUIRE_FALSE(many);
  CHECK(many.error().message.starts_with("names 4294967295 ranks, expected at most "));
}

TEST_CASE("process groups are the communicators of the nodes that name them") {
  ChakraTrace trace = read_chakra_trace(chakra_file(
      {{1,
        "a",
        7,
        {},
        {},
        0,
        {attribute("comm_type", 0), attribute("comm_size", 8), attribute("pg_name", "dp")}},
       {2, "b", 7, {}, {1}, 0, {attribute("comm_type", 0), attribute("comm_size", 8)}}}));
  trace.groups.push_back({"dp", "", {0, 4, 4}, 2});
  const Graph graph = graph_of(trace, 8);
  REQUIRE(graph.communicators.size() == 2);
  const Group& group = graph.at(graph.at(graph.ops[0].communicator).group);
  CHECK(graph.text(group.name) == "dp");
  CHECK(group.ranks.count == 2);
  CHECK(graph.at(graph.at(graph.ops[1].communicator).group).ranks.count == 8);
}

TEST_CASE("communication without a kind or peers takes its duration, and is alone") {
  const ChakraTrace trace = read_chakra_trace(
      chakra_file({{1, "a", 7, {}, {}, 9, {attribute("comm_size", 64)}},
                   {2, "b", 5, {}, {1}, 5, {attribute("comm_dst", 1), attribute("comm_size", 8)}},
                   {3, "c", 7, {}, {2}, 0, {attribute("comm_size", 1 << 30)}},
                   {4, "d", 7, {}, {3}, 0, {attribute("comm_type", 0)}},
                   {5, "e", 7, {}, {4}, 0, {attribute("comm_type", 9)}},
                   {6, "ncclKernel_Broadcast_RING_LL", 7, {}, {5}, 3}}));
  ChakraTrace other = trace;
  other.nodes.duration[0] = 7'000;
  const ChakraClass classes[] = {{&trace, {0}}, {&other, {1}}};
  const auto made = chakra_graph(classes, {});
  REQUIRE(made);
  const Graph& graph = made->graph;
  CHECK(validate(graph, 1).empty());
  REQUIRE(graph.ops.size() == 12);
  for (const std::size_t op : {0, 1, 2}) {
    CHECK(graph.ops[op].kind == OpKind::send_recv);
    CHECK(cost_of(graph, op).is_fixed);
    CHECK(graph.text(graph.at(graph.ops[op].communicator).name) == "communication of rank 0");
  }
  CHECK(cost_of(graph, 0).fixed_time == 9'000);
  CHECK(cost_of(graph, 0).message_bytes == 0);
  CHECK(cost_of(graph, 1).message_bytes == 8);
  CHECK(graph.ops[5].kind == OpKind::broadcast);
  CHECK(cost_of(graph, 5).fixed_time == 3'000);
  CHECK(cost_of(graph, 6).fixed_time == 7'000);
  CHECK(graph.text(graph.at(graph.ops[6].communicator).name) == "communication of rank 1");
  CHECK(cost_of(graph, 3).is_fixed);        // its duration, which is 0
  CHECK_FALSE(cost_of(graph, 4).is_fixed);  // a barrier has no size
  REQUIRE(made->warnings.size() == 3);      // of each trace, and that none declares a group
  CHECK(made->warnings[0] ==
        "t.et: 2 nodes of communication take no time: they have no duration, and no size, kind or "
        "peers to price them by, the first of them node 3 'c'");
}

TEST_CASE("a memory node of no bytes takes its duration") {
  const Graph graph = graph_of(read_chakra_trace(chakra_file({{1, "load", 2}})));
  CHECK(cost_of(graph, 0).is_fixed);
  CHECK(cost_of(graph, 0).fixed_time == 0);
}

TEST_CASE("the world's two names are one communicator, declared or not") {
  const auto group = [](std::string_view name) { return attribute("pg_name", name); };
  ChakraTrace trace = read_chakra_trace(
      chakra_file({{1, "a", 7, {}, {}, 9, {attribute("comm_type", 0), group("0")}},
                   {2, "b", 7, {}, {}, 9, {attribute("comm_type", 0), group("")}},
                   {3, "c", 7, {}, {}, 9, {attribute("comm_type", 0)}}}));
  const auto communicators = [&] {
    const Graph graph = graph_of(trace, 4);
    std::vector<std::string> names;
    for (const Communicator& row : graph.communicators) names.emplace_back(graph.text(row.name));
    return names;
  };
  using Names = std::vector<std::string>;
  CHECK(communicators() == Names{"world"});
  trace.groups.push_back({"0", "", {0, 1, 2, 3}, 4});
  CHECK(communicators() == Names{"world"});
  trace.groups.front() = {"0", "", {0, 2}, 2};
  CHECK(communicators() == Names{"0"});
}

TEST_CASE("a world that is too small for what the trace names is an error") {
  const ChakraTrace trace = read_chakra_trace(
      chakra_file({{1, "s", 5, {}, {}, 3, {attribute("comm_src", 0), attribute("comm_dst", 5)}}}));
  const ChakraClass alone[] = {{&trace, {0}}};
  ChakraGraphOptions options;
  options.world_size = 4;
  const auto graph = chakra_graph(alone, options);
  REQUIRE_FALSE(graph);
  CHECK(graph.error().text() == "t.et: names 6 ranks, more than the world size of 4");
}

TEST_CASE("ranks without a trace are warned of, and jobs of a size that nothing says") {
  ChakraTrace trace = read_chakra_trace(chakra_file(
      {{1, "a", 7, {}, {}, 9, {attribute("comm_type", 0), attribute("comm_size", 8)}}}));
  ChakraTrace other = trace;
  const ChakraClass classes[] = {{&trace, {0}}, {&other, {1, 2}}};
  const auto warned = [&](std::optional<std::uint32_t> world = {}) {
    ChakraGraphOptions options;
    options.world_size = world;
    return chakra_graph(classes, options).value().warnings;
  };
  using Texts = std::vector<std::string>;
  CHECK(warned() ==
        Texts{"t.et: declares no process groups: collectives are taken to be of 3 ranks, as given: "
              "give all files, or --set parallel.world_size=N"});
  CHECK(warned(8).empty());
  for (ChakraTrace* each : {&trace, &other})
    each->groups.push_back({"0", "", {0, 1, 2, 3, 4, 5, 6, 7}, 8});
  CHECK(warned() ==
        Texts{"8 ranks are named, and 3 have a trace: the others are not simulated: give all "
              "files, or --set parallel.world_size=8"});
  CHECK(warned(8).empty());
  for (ChakraTrace* each : {&trace, &other}) each->groups.front() = {"0", "", {0, 1, 2}, 3};
  CHECK(warned().empty());
}

TEST_CASE("a rank on a group without it is an error") {
  const ChakraTrace trace = read_chakra_trace(
      chakra_file({{1, "s", 5, {}, {}, 3, {attribute("comm_src", 0), attribute("comm_dst", 2)}}}));
  const ChakraClass classes[] = {{&trace, {1}}};
  const auto graph = chakra_graph(classes, {});
  REQUIRE_FALSE(graph);
  CHECK(graph.error().text() ==
        "t.et: ranks 0 to 2 have a node on the communicator '0 to 2' of 2 ranks, and are not all "
        "among them");
}

TEST_CASE("control dependencies that close a circle are left out") {
  const ChakraTrace trace =
      read_chakra_trace(chakra_file({{1, "a", 4, {2}, {}, 5}, {2, "b", 4, {}, {1}, 5}}));
  const ChakraClass alone[] = {{&trace, {0}}};
  const auto graph = chakra_graph(alone, {});
  REQUIRE(graph);
  REQUIRE(graph->warnings.size() == 1);
  CHECK(graph->warnings.front() ==
        "t.et: dependencies go in a circle: 1 control dependencies on later nodes were left out");
}

TEST_CASE("a free resource takes what has been ready for longest") {
  // 0 and 1 on one resource, 2 behind 0 and 3 behind 1 on another: 3 is ready first.
  ChakraDeps deps;
  deps.of = {{0, 0}, {0, 0}, {0, 1}, {1, 1}};
  deps.rows = {0, 1};
  const std::vector<std::uint32_t> apart{0, 2, 1, 1}, together{0, 0, 1, 1};
  const std::vector<Ns> durations{10, 5, 1, 1};
  CHECK(ready_order({deps, apart, durations, {}}) == std::vector<std::uint32_t>{0, 1, 3, 2});
  CHECK(ready_order({deps, together, durations, {}}) == std::vector<std::uint32_t>{0, 1, 2, 3});
  const std::vector<std::vector<std::uint32_t>> prescribed{{}, {2, 3}, {}};
  CHECK(ready_order({deps, apart, durations, prescribed}) ==
        std::vector<std::uint32_t>{0, 1, 2, 3});
}

TEST_CASE("a prescribed order that dependencies forbid lets no more start") {
  ChakraDeps deps;
  deps.of = {{0, 0}, {0, 1}};
  deps.rows = {0};
  const std::vector<std::uint32_t> resource{0, 0};
  const std::vector<Ns> durations{1, 1};
  const std::vector<std::vector<std::uint32_t>> prescribed{{1, 0}};
  CHECK(ready_order({deps, resource, durations, prescribed}).empty());
}
