#include <catch2/catch.hpp>

#include "sim/passes/registry.h"
#include "tests/fixtures/parts.h"
#include "tests/support/skip.h"
#include "tests/unit/passes/schedules.h"

using namespace foregather;
using namespace foregather::test;

namespace {

constexpr Bytes kWeight = 1024;  // 16×16 f32
constexpr Bytes kActivation = 256;

// The example of lightning-thunder PR 602: two linears of one weight, gathered at the top under
// two names on 2 ranks. Freed by `free` or by `release` of a future and a waited view.
Graph two_linears(bool releases, bool shares_shard) {
  GraphBuilder b;
  const GroupId group = b.group("fsdp", first_ranks(2), 1);
  const CommunicatorId comm = b.communicator("fsdp", group);
  b.begin_program("thunder");
  const StreamId compute = b.stream("compute");
  const StreamId nccl = b.stream("nccl");
  b.thread("python");
  const auto shard = [&](const char* name, UnitId unit) {
    return buffer(b, name, kWeight / 2, Cause::parameter_shard, {}, unit);
  };
  Unit row;
  row.scope = b.scope("");
  row.group = group;
  row.parameters = row.padded_elements = 256;
  const UnitId units[2] = {b.unit(row), b.unit(row)};
  const Buffer shards[2] = {shard("l1.weight", units[0]), shard("l2.weight", units[1])};
  const Buffer x = buffer(b, "x", kActivation, Cause::activation);
  const Buffer y = buffer(b, "y", kActivation, Cause::activation);
  const Buffer z = buffer(b, "z", kActivation, Cause::activation);
  Buffer full[2];
  TensorId waited[2];
  OpId gathers[2], linears[2];
  EventId done[2];
  for (int i = 0; i < 2; ++i) {
    full[i] = buffer(b, i == 0 ? "p1" : "p2", kWeight, Cause::unsharded_parameter, {}, units[i]);
    waited[i] = releases ? b.whole(full[i].storage) : full[i].tensor;
    done[i] = b.event();
  }
  for (int i = 0; i < 2; ++i) {
    OpSpec spec;
    spec.role = Role::gather;
    spec.phase = Phase::forward;
    spec.unit = units[i];
    spec.stream = nccl;
    spec.communicator = comm;
    spec.cost = collective(b, OpKind::all_gather, DType::f32, kWeight, group);
    gathers[i] = op(b, spec, {read(shards[shares_shard ? 0 : i]), write(full[i])});
  }
  for (int i = 0; i < 2; ++i) {
    OpSpec spec;
    spec.phase = Phase::forward;
    spec.stream = compute;
    spec.cost = gemm(b, 4, 16, 16);
    linears[i] =
        op(b, spec,
           {read(i == 0 ? x : y), {waited[i], Access::read, 0, kWeight}, write(i == 0 ? y : z)});
  }
  b.select(0, Section::init);
  b.alloc(shards[0].storage, compute);
  if (!shares_shard) b.alloc(shards[1].storage, compute);
  b.alloc(x.storage, compute);
  for (const Section section : {Section::first, Section::body}) {
    b.select(0, section);
    for (int i = 0; i < 2; ++i) {
      b.alloc(full[i].storage, nccl);
      b.launch(gathers[i]);
      b.record(done[i], nccl);
    }
    for (int i = 0; i < 2; ++i) {
      b.wait(compute, done[i]);
      if (releases) b.release(full[i].tensor);
      b.alloc(i == 0 ? y.storage : z.storage, compute);
      b.launch(linears[i]);
      b.record_stream(full[i].storage, compute);
      if (releases)
        b.release(waited[i]);
      else
        b.free(full[i].storage);
    }
    b.free(y.storage);
    b.free(z.storage);
  }
  b.end_program();
  one_class(b, ProgramId(0), 2);
  return b.finish();
}

}  // namespace

TEST_CASE("one weight under two names is gathered once") {
  for (const bool releases : {false, true}) {
    CAPTURE(releases);
    const Graph before = two_linears(releases, true);
    REQUIRE(problems(before) == "");
    CHECK(gathered_bytes(before) == 2048);
    std::vector<sim::PassNote> notes;
    const Graph after = passed(before, {"dedup-shared-params"}, &notes);
    CHECK(problems(after) == "");
    CHECK(notes.at(0).changed);
    CHECK(count(after, Role::gather) == 1);
    CHECK(gathered_bytes(after) == 1024);
    // Shard, x, both weights, y; after: shard, x, one weight, y and z.
    CHECK(live_peak(before) - live_peak(after) == kWeight - kActivation);
    // It lives until the second linear.
    const auto order = launches(after);
    REQUIRE(order.size() == 3);
    const auto first = after.accesses_of(after.at(order[1]));
    const auto second = after.accesses_of(after.at(order[2]));
    CHECK(after.at(first[1].tensor).storage == after.at(second[1].tensor).storage);
    CHECK_FALSE(passed(after, {"dedup-shared-params"}, &notes).ops.empty());
    CHECK_FALSE(notes.at(0).changed);
  }
}

TEST_CASE("two names that the graph does not know as one are given") {
  const Graph before = two_linears(false, false);
  REQUIRE(problems(before) == "");
  std::vector<sim::PassNote> notes;
  CHECK(count(passed(before, {"dedup-shared-params"}, &notes), Role::gather) == 2);
  CHECK_FALSE(notes.at(0).changed);
  const Graph after = passed(before, {"dedup-shared-params=l1.weight:l2.weight"});
  CHECK(problems(after) == "");
  CHECK(count(after, Role::gather) == 1);
  CHECK_THROWS(passed(before, {"dedup-shared-params=l1.weight:l3.weight"}));
}

TEST_CASE("two names of unlike numbers of parameters are refused") {
  sim::PassTarget target{two_linears(false, false)};
  for (Storage& storage : target.graph.storages) {
    if (target.graph.text(storage.name) != "x") continue;
    storage.name = target.graph.strings.intern("l2.weight");
    storage.cause = Cause::parameter_shard;
  }
  const auto note = (*sim::parse_pass("dedup-shared-params=l1.weight:l2.weight"))(target);
  REQUIRE_FALSE(note);
  CHECK(note.error().text() ==
        "--what-if dedup-shared-params=l1.weight:l2.weight: 'l1.weight' names 1 parameters and "
        "'l2.weight' 2");
}

TEST_CASE("the trace of PR 602 gathers its weight once") {
  const auto trace = shared_data("thunder/pr602_before_fwd.txt");
  if (!trace) FOREGATHER_SKIP("no shared data");
  const Graph before = loaded(trace->string(), {}).graph;
  const Graph after =
      loaded(trace->string(), {}, {"dedup-shared-params=t_fc1_weight:t_fc2_weight"}).graph;
  CHECK(problems(after) == "");
  CHECK(count(before, Role::gather) == 2);
  CHECK(count(after, Role::gather) == 1);
  CHECK(gathered_bytes(before) == 2048);
  CHECK(gathered_bytes(after) == 1024);
  // As Thunder's estimator has them (reference: Thunder §B.2).
  CHECK(live_peak(before) == 3584);
  CHECK(live_peak(after) == 2816);
}

TEST_CASE("GPT-2 with embedding and head wrapped under two names") {
  constexpr Bytes kGathered = Bytes{50264} * 768 * 2;  // rows padded to 8 ranks, bf16
  const auto sets = std::vector<std::string>{"model.layers=2"};
  const Graph before = sample_with("gpt2_two_names", sets).graph;
  const Graph after = sample_with("gpt2_two_names", sets, {"dedup-shared-params"}).graph;
  CHECK(problems(before) == "");
  CHECK(problems(after) == "");
  // Root, wte, two blocks, head; in the backward, where the root is still gathered, the others.
  CHECK(count(before, Role::gather) == 9);
  CHECK(count(after, Role::gather) == 7);
  CHECK(gathered_bytes(before) - gathered_bytes(after) == 2 * kGathered);
  CHECK(count(after, Role::reduce) == count(before, Role::reduce));
  CHECK(before.parameters == after.parameters);

  // Never resharded, one of two is left, and its buffers are gone.
  const auto kept =
      std::vector<std::string>{"model.layers=2", "parallel.reshard_after_forward=false"};
  const Graph twice = sample_with("gpt2_two_names", kept).graph;
  const Graph once = sample_with("gpt2_two_names", kept, {"dedup-shared-params"}).graph;
  CHECK(problems(once) == "");
  CHECK(count(twice, Role::gather) == 5);
  CHECK(count(once, Role::gather) == 4);
  const auto bytes = [](const Graph& graph, Cause cause) {
    Bytes sum = 0;
    for (const Storage& storage : graph.storages)
      if (storage.cause == cause) sum += storage.bytes;
    return sum;
  };
  CHECK(bytes(twice, Cause::unsharded_parameter) - bytes(once, Cause::unsharded_parameter) ==
        kGathered);

  const Graph one_unit =
      sample_with("gpt2_two_names", {"model.layers=2", "model.tied=one-unit"}).graph;
  std::vector<sim::PassNote> notes;
  (void)passed(one_unit, {"dedup-shared-params"}, &notes);
  CHECK_FALSE(notes.at(0).changed);
}

TEST_CASE("two names need ties, FSDP2 and device memory") {
  CHECK_THROWS(sample_with("llama3_8b_fsdp2", {"model.tied=two-names"}));
  CHECK_THROWS(sample_with("gpt2_two_names", {"parallel.offload=all"}));
  for (const char* more : {"train.grad_accum=2", "parallel.shard_size=2",
                           "parallel.reshard_after_forward=2", "parallel.reduce_dtype=bf16"}) {
    CAPTURE(more);
    const Graph graph = sample_with("gpt2_two_names", {"model.layers=2", more}).graph;
    CHECK(problems(graph) == "");
    CHECK(problems(passed(graph, {"dedup-shared-params"})) == "");
  }
}
