// Each field that can point outside is caught, and said of the right row.
#include <functional>
#include <limits>
#include <catch2/catch.hpp>

#include "core/ir/references.h"
#include "tests/fixtures/fixtures.h"
#include "tests/unit/ir/edit.h"

using namespace foregather;
using namespace foregather::test;

namespace {

struct Break {
  const char* label;    ///< of the row that is told first
  const char* message;  ///< begin of what is said
  std::function<void(Graph&)> edit;
};

Action& body_action(Graph& graph, ActionKind kind) {
  for (HostThread& thread : graph.programs[0].threads)
    for (Action& each : thread.sections[std::size_t(Section::body)])
      if (each.kind == kind) return each;
  throw std::logic_error("no such action");
}

const std::vector<Break>& breaks() {
  static const std::vector<Break> all{
      {"job", "world size 0", [](Graph& g) { g.world_size = 0; }},
      {"job", "world size 4000000000", [](Graph& g) { g.world_size = 4'000'000'000U; }},
      {"job", "number of parameters -1", [](Graph& g) { g.parameters = -1; }},
      {"job", "number of tokens", [](Graph& g) { g.tokens_per_rank_step = -1; }},
      {"job", "model FLOPs",
       [](Graph& g) { g.model_flops_per_rank_step = std::numeric_limits<std::int64_t>::max(); }},
      {"s0", "name n999", [](Graph& g) { g.scopes[0].name = StringId(999); }},
      {"g0", "ranks 0+4000000000", [](Graph& g) { g.groups[0].ranks.count = 4'000'000'000U; }},
      {"g0", "has no ranks", [](Graph& g) { g.groups[0].ranks.count = 0; }},
      {"g0", "rank 9 is out of range", [](Graph& g) { g.rank_lists[1] = 9; }},
      {"g0", "rank 0 is listed twice", [](Graph& g) { g.rank_lists[1] = 0; }},
      {"g0", "0 instances", [](Graph& g) { g.groups[0].instances = 0; }},
      {"g0", "1 instances on 0 nodes", [](Graph& g) { g.groups[0].nodes = 0; }},
      {"g0", "2 instances of 8 ranks are more", [](Graph& g) { g.groups[0].instances = 2; }},
      {"c0", "has no group", [](Graph& g) { g.communicators[0].group = {}; }},
      {"c0", "group g7", [](Graph& g) { g.communicators[0].group = GroupId(7); }},
      {"u0", "scope s7", [](Graph& g) { g.units[0].scope = ScopeId(7); }},
      {"u0", "group g7", [](Graph& g) { g.units[0].group = GroupId(7); }},
      {"u0", "padded elements -1", [](Graph& g) { g.units[0].padded_elements = -1; }},
      {"u0", "gathered dtype 77", [](Graph& g) { g.units[0].gathered = DType(77); }},
      {"u0", "reshard 9", [](Graph& g) { g.units[0].reshard = Reshard(9); }},
      {"k0", "kind 99", [](Graph& g) { g.costs[0].kind = OpKind(99); }},
      {"k0", "flops -5", [](Graph& g) { g.costs[0].flops = -5; }},
      {"k0", "extent -5", [](Graph& g) { g.costs[0].batch = -5; }},
      {"k0", "fixed time", [](Graph& g) { g.costs[0].fixed_time = -1; }},
      {"k0", "has a fixed time but", [](Graph& g) { g.costs[0].fixed_time = 1; }},
      {"k0", "has a lead but", [](Graph& g) { g.costs[0].lead = 1; }},
      {"k0", "has a lead but", [](Graph& g) { g.costs[0].launch_lead = 1; }},
      {"k0", "has a usual time but", [](Graph& g) { g.costs[0].usual_time = 1; }},
      {"k0", "has late ranks but", [](Graph& g) { g.costs[0].lateness = 1; }},
      {"k1", "has no group", [](Graph& g) { g.costs[1].group = {}; }},
      {"b0", "size -1", [](Graph& g) { g.storages[0].bytes = -1; }},
      {"b0", "size 9223372036854775807",
       [](Graph& g) { g.storages[0].bytes = std::numeric_limits<Bytes>::max(); }},
      {"b0", "unit u7", [](Graph& g) { g.storages[0].unit = UnitId(7); }},
      {"b0", "cause 77", [](Graph& g) { g.storages[0].cause = Cause(77); }},
      {"t0", "has no storage", [](Graph& g) { g.tensors[0].storage = {}; }},
      {"t0", "shape", [](Graph& g) { g.tensors[0].shape.first = 4'000'000'000U; }},
      {"t0", "has a negative dimension", [](Graph& g) { g.dims[0] = -1; }},
      {"t8", "has a negative dimension or more",
       [](Graph& g) { g.dims[8] = std::numeric_limits<std::int64_t>::max(); }},
      {"t0", "takes 131073 bytes at 0 of storage b0, which has 131072",
       [](Graph& g) { g.dims[0] += 1; }},
      {"t0", "takes", [](Graph& g) { g.tensors[0].offset = -1; }},
      {"t0", "takes", [](Graph& g) { g.tensors[0].offset = std::numeric_limits<Bytes>::max(); }},
      {"p0", "ops", [](Graph& g) { g.programs[0].ops.count += 1; }},
      {"p0", "storages", [](Graph& g) { g.programs[0].storages.first = 4'000'000'000U; }},
      {"p0", "events", [](Graph& g) { g.programs[0].events.count = 4'000'000'000U; }},
      {"p0", "has 257 streams", [](Graph& g) { g.programs[0].streams.resize(257); }},
      {"p0", "has 300 host threads", [](Graph& g) { g.programs[0].threads.resize(300); }},
      {"p1", "shares rows with p0",
       [](Graph& g) {
         Program other;
         other.ops = {3, 1};
         g.programs.push_back(other);
       }},
      {"p0 q1", "name n999", [](Graph& g) { g.programs[0].streams[1].name = StringId(999); }},
      {"p0 h0", "name n999", [](Graph& g) { g.programs[0].threads[0].name = StringId(999); }},
      {"o0", "kind 99", [](Graph& g) { g.ops[0].kind = OpKind(99); }},
      {"o0", "phase 99", [](Graph& g) { g.ops[0].phase = Phase(99); }},
      {"o0", "has no stream", [](Graph& g) { g.ops[0].stream = {}; }},
      {"o0", "stream q4", [](Graph& g) { g.ops[0].stream = StreamId(4); }},
      {"o0", "has no cost", [](Graph& g) { g.ops[0].cost = {}; }},
      {"o0", "is a cast with a communicator",
       [](Graph& g) { g.ops[0].communicator = CommunicatorId(0); }},
      {"o0", "is a cast with a communicator", [](Graph& g) { g.ops[0].sequence = 1; }},
      {"o1", "has no communicator", [](Graph& g) { g.ops[1].communicator = {}; }},
      {"o1", "is priced for group g1 but its communicator's is g0",
       [](Graph& g) {
         g.groups.push_back(g.groups[0]);
         g.costs[1].group = GroupId(1);
       }},
      {"o3", "origin o99", [](Graph& g) { g.op_lists[0] = OpId(99); }},
      {"o3", "origins 0+9", [](Graph& g) { g.ops[3].origins.count = 9; }},
      {"o3", "dep o4294967295",
       [](Graph& g) {
         g.op_lists.push_back({});
         g.ops[3].deps = {2, 1};
       }},
      {"o0", "accesses", [](Graph& g) { g.ops[0].accesses.first = 4'000'000'000U; }},
      {"o0", "access 9", [](Graph& g) { g.accesses[0].mode = Access(9); }},
      {"o0", "tensor t999", [](Graph& g) { g.accesses[0].tensor = TensorId(999); }},
      {"o0", "touches 131072 bytes at 1", [](Graph& g) { g.accesses[0].offset = 1; }},
      {"o0", "touches -1 bytes", [](Graph& g) { g.accesses[0].bytes = -1; }},
      {"o0", "touches 9223372036854775807",
       [](Graph& g) { g.accesses[0].bytes = std::numeric_limits<Bytes>::max(); }},
      {"p0 h0 body action 0", "action 99",
       [](Graph& g) { body_action(g, ActionKind::mark).kind = ActionKind(99); }},
      {"p0 h0 body action 0", "phase 9", [](Graph& g) { body_action(g, ActionKind::mark).b = 9; }},
      {"p0 h0 body action 0", "micro-batch 65536",
       [](Graph& g) { body_action(g, ActionKind::mark).a = 65536; }},
      {"p0 h0 body action 3", "storage b99",
       [](Graph& g) { body_action(g, ActionKind::alloc).a = 99; }},
      {"p0 h0 body action 3", "has no stream",
       [](Graph& g) { body_action(g, ActionKind::alloc).stream = {}; }},
      {"p0 h0 body action 4", "op o13",
       [](Graph& g) { body_action(g, ActionKind::launch).a = 13; }},
      {"p0 h0 body action 4", "is a launch with a stream, a or b that it does not use",
       [](Graph& g) { body_action(g, ActionKind::launch).b = 1; }},
      {"p0 h0 body action 1", "event e5",
       [](Graph& g) { body_action(g, ActionKind::record).a = 5; }},
      {"p0 h0 body action 2", "stream q99",
       [](Graph& g) { body_action(g, ActionKind::wait).stream = StreamId(99); }},
      {"p0 h0 body action 12", "tensor t999",
       [](Graph& g) { body_action(g, ActionKind::release).a = 999; }},
      {"p0 h0 body action 36", "is a host_wait_stream with",
       [](Graph& g) { body_action(g, ActionKind::host_wait_stream).a = 1; }},
      {"p0 h0 body action 0", "thread h1",
       [](Graph& g) {
         body_action(g, ActionKind::mark) = {ActionKind::host_wait_action, {}, 1, 0};
       }},
      {"p0 h0 body action 0", "thread h0 has no action",
       [](Graph& g) {
         body_action(g, ActionKind::mark) = {ActionKind::host_wait_action, {}, 0, 1000};
       }},
      {"r0", "has no program", [](Graph& g) { g.classes[0].program = {}; }},
      {"r0", "program p1", [](Graph& g) { g.classes[0].program = ProgramId(1); }},
      {"r0", "compute scale", [](Graph& g) { g.classes[0].compute_scale_ppm = -1; }},
      {"r0", "start delay", [](Graph& g) { g.classes[0].start_delay = -1; }},
      {"r1", "rank 0 is listed twice", [](Graph& g) { g.classes.push_back(g.classes[0]); }},
  };
  return all;
}

}  // namespace

TEST_CASE("bad references are found and named") {
  for (const Break& each : breaks()) {
    INFO(each.label << ": " << each.message);
    Graph graph = deepcompile_zero3();
    each.edit(graph);
    const auto bad = check_references(graph);
    REQUIRE(!bad.empty());
    INFO(bad[0].label() << ": " << bad[0].message);
    CHECK(bad[0].label() == each.label);
    CHECK(bad[0].message.find(each.message) == 0);
    const auto problems = validate(graph);
    CHECK(kinds_of(problems) == std::vector{ProblemKind::bad_reference});
  }
}

TEST_CASE("references of fixtures hold") {
  for (const auto& [name, make] : all_fixtures()) {
    INFO(name);
    CHECK(check_references(make()).empty());
  }
}

TEST_CASE("bytes of a tensor") {
  Graph graph;
  graph.dims = {3, 5, 0, -1, std::numeric_limits<std::int64_t>::max()};
  const auto bytes = [&](Range shape, DType dtype) {
    return bytes_of(graph, Tensor{StorageId(0), 0, shape, dtype});
  };
  CHECK(bytes({0, 2}, DType::bf16) == 30);
  CHECK(bytes({0, 0}, DType::f64) == 8);
  CHECK(bytes({0, 3}, DType::f64) == 0);
  CHECK(bytes({3, 1}, DType::u8) == std::nullopt);
  CHECK(bytes({4, 1}, DType::u8) == std::numeric_limits<std::int64_t>::max());
  CHECK(bytes({4, 1}, DType::f16) == std::nullopt);
}
