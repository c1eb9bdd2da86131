// What-ifs on the all-gathers of recorded runs.
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include <catch2/catch.hpp>

#include "core/ir/builder.h"
#include "tests/unit/passes/schedules.h"

using namespace foregather;
using namespace foregather::test;

namespace {

/// Ops as rebuild leaves them: fixed times, no storages, both steps the same.
class RecordedWriter {
 public:
  RecordedWriter() {
    program_ = b_.begin_program("rank 0");
    compute_ = b_.stream("0/7");
    comm_ = b_.stream("0/20");
    b_.thread("1/1");
    b_.select(0, Section::body);
    const std::uint32_t rank = 0;
    group_ = b_.group("g", std::span(&rank, 1), 1);
    communicator_ = b_.communicator("g", group_);
  }

  OpId gather(std::string_view scope, Bytes bytes, Ns time, DType dtype) {
    Cost cost = fixed(OpKind::all_gather, time);
    cost.dtype = dtype;
    cost.message_bytes = bytes;
    cost.group = group_;
    return op(scope, cost, comm_, {}, communicator_);
  }
  OpId compute(OpKind kind, std::string_view scope, Ns time, std::vector<OpId> deps = {},
               DType dtype = DType::f32) {
    Cost cost = fixed(kind, time);
    cost.dtype = dtype;
    return op(scope, cost, compute_, deps, {});
  }

  Graph finish() {
    b_.end_program();
    Graph& graph = b_.graph();
    graph.world_size = 4;
    HostThread& thread = graph.programs[0].threads[0];
    thread.sections[static_cast<std::size_t>(Section::first)] =
        thread.sections[static_cast<std::size_t>(Section::body)];
    RankClass rank_class;
    rank_class.program = program_;
    const std::uint32_t rank = 0;
    b_.rank_class(rank_class, std::span(&rank, 1));
    Graph finished = b_.finish();
    REQUIRE(problems(finished).empty());
    return finished;
  }

 private:
  static Cost fixed(OpKind kind, Ns time) {
    Cost cost;
    cost.kind = kind;
    cost.is_fixed = true;
    cost.kernels = 0;
    cost.fixed_time = time;
    return cost;
  }
  OpId op(std::string_view scope, const Cost& cost, StreamId stream, const std::vector<OpId>& deps,
          CommunicatorId communicator) {
    OpSpec spec;
    spec.kind = cost.kind;
    spec.phase = Phase::forward;
    spec.scope = b_.scope(scope);
    spec.stream = stream;
    spec.communicator = communicator;
    spec.cost = b_.cost(cost);
    const OpId made = b_.op(spec, {}, deps);
    b_.launch(made);
    return made;
  }

  GraphBuilder b_;
  ProgramId program_;
  StreamId compute_, comm_;
  GroupId group_;
  CommunicatorId communicator_;
};

std::vector<std::string> described(const Graph& graph) {
  std::vector<std::string> all;
  for (const OpId id : launches(graph)) {
    const Op& op = graph.at(id);
    std::string text =
        std::string(graph.scope_name(op.scope)) + " " + std::string(name(op.kind)) + " after";
    for (const OpId dep : graph.deps_of(op)) text += " " + std::to_string(dep.row());
    all.push_back(text);
  }
  return all;
}

Graph two_names(Bytes second) {
  RecordedWriter w;
  const OpId a = w.gather("wte", 400, 50, DType::bf16);
  w.compute(OpKind::copy, "wte", 2, {a});
  w.compute(OpKind::gemm, "", 100);
  const OpId b = w.gather("head", second, 50, DType::bf16);
  w.compute(OpKind::copy, "head", 2, {b});
  w.compute(OpKind::gemm, "", 100);
  return w.finish();
}

}  // namespace

TEST_CASE("dedup-shared-params drops the second gather of a recorded run by the units' scopes") {
  std::vector<sim::PassNote> notes;
  const Graph graph = passed(two_names(400), {"dedup-shared-params=wte:head"}, &notes);
  CHECK(notes[0].changed);
  CHECK(notes[0].did == "1 recorded gathers dropped, 400 B no longer gathered");
  // The second product waits for the first gather, where it waited for the copy behind the second.
  CHECK(described(graph) == std::vector<std::string>{"wte all_gather after", "wte copy after 0",
                                                     " gemm after", " gemm after 0"});
  CHECK(problems(graph).empty());

  for (const auto& [pass, bytes] : {std::pair("dedup-shared-params=wte:head", Bytes{300}),
                                    std::pair("dedup-shared-params=head:wte", Bytes{400}),
                                    std::pair("dedup-shared-params", Bytes{400})}) {
    passed(two_names(bytes), {pass}, &notes);
    CHECK_FALSE(notes.back().changed);
  }
}

TEST_CASE("fuse-downcast takes a recorded cast into its gather") {
  const auto recorded = [](OpKind user, DType gathered, bool is_shared) {
    RecordedWriter w;
    const OpId gather = w.gather("layers.0", 4000, 1000, gathered);
    const OpId cast = w.compute(user, "layers.0", 400, {gather}, DType::bf16);
    w.compute(OpKind::gemm, "layers.0", 100,
              is_shared ? std::vector{cast, gather} : std::vector{cast});
    return w.finish();
  };
  std::vector<sim::PassNote> notes;
  const Graph graph = passed(recorded(OpKind::cast, DType::f32, false), {"fuse-downcast"}, &notes);
  CHECK(notes.back().did == "1 recorded gathers send the narrow dtype, 2.0 KiB less");
  REQUIRE(graph.ops.size() == 2);
  const Cost& cost = graph.at(graph.ops[0].cost);
  CHECK(cost.fixed_time == 1000 / 2 + 400 / 4);
  CHECK(cost.message_bytes == 2000);
  CHECK(cost.dtype == DType::bf16);
  CHECK(described(graph)[1] == "layers.0 gemm after 0");
  CHECK(problems(graph).empty());

  passed(recorded(OpKind::copy, DType::f32, false), {"fuse-downcast"}, &notes);
  CHECK_FALSE(notes.back().changed);
  passed(recorded(OpKind::cast, DType::bf16, false), {"fuse-downcast"}, &notes);
  CHECK_FALSE(notes.back().changed);
  passed(recorded(OpKind::cast, DType::f32, true), {"fuse-downcast"}, &notes);
  CHECK_FALSE(notes.back().changed);
}
