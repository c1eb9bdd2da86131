// Bounds and the live model on graphs small enough to do by hand.
#include <catch2/catch.hpp>

#include "core/ir/builder.h"
#include "sim/engine/bounds.h"
#include "sim/engine/engine.h"
#include "sim/memory/host_order.h"
#include "sim/memory/live.h"
#include "sim/memory/memory_bound.h"

using namespace foregather;

namespace {

// A program of one class; ops take the fixed time of their cost.
struct Bench {
  GraphBuilder builder;
  StreamId compute, comm;
  std::uint32_t main = 0;

  Bench() {
    builder.begin_program("rank");
    compute = builder.stream("compute");
    comm = builder.stream("comm");
    main = builder.thread("main");
    builder.select(main, Section::body);
  }

  TensorId buffer(Bytes bytes, Cause cause = Cause::activation) {
    Storage storage;
    storage.bytes = bytes;
    storage.cause = cause;
    return builder.whole(builder.storage(storage));
  }

  StorageId storage(TensorId tensor) { return builder.graph().at(tensor).storage; }
  void alloc(TensorId tensor) { builder.alloc(storage(tensor), compute); }
  void free(TensorId tensor) { builder.free(storage(tensor)); }

  // An op that reads some buffers and writes others, launched in the selected section.
  OpId launch(Ns time, const std::vector<TensorId>& reads, const std::vector<TensorId>& writes,
              bool on_comm = false) {
    Cost cost;
    cost.is_fixed = true;
    cost.fixed_time = time;
    OpSpec spec;
    spec.kind = OpKind::other;
    spec.stream = on_comm ? comm : compute;
    spec.cost = builder.cost(cost);
    std::vector<AccessedTensor> accesses;
    for (const TensorId tensor : reads)
      accesses.push_back({tensor, Access::read, 0, builder.graph().at(storage(tensor)).bytes});
    for (const TensorId tensor : writes)
      accesses.push_back({tensor, Access::write, 0, builder.graph().at(storage(tensor)).bytes});
    const OpId op = builder.op(spec, accesses);
    builder.launch(op);
    return op;
  }

  Graph finish() {
    builder.end_program();
    RankClass rank_class;
    rank_class.program = ProgramId(0);
    const std::vector<std::uint32_t> ranks{0};
    builder.rank_class(rank_class, ranks);
    return builder.finish();
  }
};

std::vector<sim::CostTable> prices(const Graph& graph) {
  sim::CostTable table;
  table.sources.push_back("fixed");
  for (const Cost& cost : graph.costs) {
    sim::Price price;
    price.duration = cost.fixed_time;
    table.prices.push_back(price);
  }
  return {table};
}

}  // namespace

TEST_CASE("the busiest stream bounds the step") {
  Bench bench;
  const TensorId a = bench.buffer(64), b = bench.buffer(64);
  bench.alloc(a);
  bench.alloc(b);
  bench.launch(10, {}, {a});
  bench.launch(20, {}, {b});
  bench.launch(25, {}, {a}, true);
  bench.free(a);
  bench.free(b);
  const Graph graph = bench.finish();
  const sim::TimeBounds bounds = sim::step_time_bounds(graph, prices(graph));
  CHECK(bounds.stream == 30);
  CHECK(bounds.communicator == 0);
  CHECK(bounds.dependencies == 0);  // nothing leads from step to step
  CHECK(bounds.bound() == 30);
}

TEST_CASE("dependencies from step to step bound it too") {
  Bench bench;
  const TensorId weight = bench.buffer(64), value = bench.buffer(64);
  bench.builder.select(bench.main, Section::init);
  bench.alloc(weight);
  bench.builder.select(bench.main, Section::body);
  bench.alloc(value);
  bench.launch(10, {weight}, {value});        // forward
  bench.launch(50, {value}, {weight}, true);  // update on the other stream
  bench.free(value);
  const Graph graph = bench.finish();
  const sim::TimeBounds bounds = sim::step_time_bounds(graph, prices(graph));
  CHECK(bounds.dependencies == 60);
  CHECK(bounds.stream == 50);
}

TEST_CASE("disjoint parts of a storage do not depend on each other") {
  Bench bench;
  const TensorId flat = bench.buffer(64);
  const StorageId storage = bench.storage(flat);
  const std::vector<std::int64_t> half{32};
  const TensorId low = bench.builder.tensor(storage, DType::u8, half, 0);
  const TensorId high = bench.builder.tensor(storage, DType::u8, half, 32);
  bench.builder.select(bench.main, Section::init);
  bench.alloc(flat);
  bench.builder.select(bench.main, Section::body);
  const auto touch = [&](TensorId tensor, Ns time) {
    Cost cost;
    cost.is_fixed = true;
    cost.fixed_time = time;
    OpSpec spec;
    spec.kind = OpKind::other;
    spec.stream = bench.compute;
    spec.cost = bench.builder.cost(cost);
    const std::vector<AccessedTensor> accesses{{tensor, Access::accumulate, 0, 32}};
    bench.builder.launch(bench.builder.op(spec, accesses));
  };
  touch(low, 10);
  touch(high, 30);
  const Graph graph = bench.finish();
  CHECK(sim::step_time_bounds(graph, prices(graph)).dependencies == 30);
}

TEST_CASE("the memory bound counts what is used before and after") {
  Bench bench;
  const TensorId weight = bench.buffer(1000, Cause::parameter_shard);
  const TensorId a = bench.buffer(100), b = bench.buffer(10), late = bench.buffer(5000);
  bench.builder.select(bench.main, Section::init);
  bench.alloc(weight);
  bench.alloc(late);
  bench.builder.select(bench.main, Section::body);
  bench.alloc(a);
  bench.alloc(b);
  bench.launch(1, {weight}, {a});
  bench.launch(1, {a}, {b});
  bench.free(a);  // later than needed
  bench.launch(1, {b}, {weight});
  bench.free(b);
  const Graph graph = bench.finish();
  // `late` is bound but never used; `weight` lives all the time.
  CHECK(sim::peak_memory_bound(graph) == 1110);
  const auto live = sim::live_memory(graph);
  REQUIRE(live.size() == 1);
  CHECK(live[0].steady.bytes == 6110);
  CHECK(live[0].steady.by_cause[static_cast<std::size_t>(Cause::activation)] == 5110);
  REQUIRE(live[0].steady.at.has_value());
  CHECK(live[0].steady.at->row() == 0);
}

TEST_CASE("a storage that is bound twice in a step has two lives") {
  Bench bench;
  const TensorId unsharded = bench.buffer(1000), big = bench.buffer(900);
  const auto use = [&](TensorId tensor) {
    bench.alloc(tensor);
    bench.launch(1, {}, {tensor});
    bench.free(tensor);
  };
  use(unsharded);
  use(big);
  use(unsharded);
  CHECK(sim::peak_memory_bound(bench.finish()) == 1000);
}

TEST_CASE("two host threads: what one hands to the other is held across") {
  Bench bench;
  const TensorId handed = bench.buffer(100), other = bench.buffer(70);
  const std::uint32_t second = bench.builder.thread("autograd");
  bench.builder.select(bench.main, Section::body);
  bench.alloc(handed);
  bench.launch(1, {}, {handed});
  const std::uint32_t made = bench.builder.position() - 1;
  bench.builder.host_wait_action(second, 4);
  bench.builder.select(second, Section::body);
  bench.builder.host_wait_action(bench.main, made);
  bench.alloc(other);
  bench.launch(1, {handed}, {other});
  bench.free(handed);
  bench.launch(1, {other}, {});
  bench.free(other);
  const Graph graph = bench.finish();
  CHECK(sim::peak_memory_bound(graph) == 170);

  const auto order = sim::host_order(graph.programs[0], Section::body);
  CHECK(order.size() == 9);
}

TEST_CASE("release frees a storage with its last tensor") {
  Bench bench;
  const TensorId whole = bench.buffer(100);
  const StorageId storage = bench.storage(whole);
  const TensorId view = bench.builder.whole(storage);
  const TensorId after = bench.buffer(50);
  bench.alloc(whole);
  bench.launch(1, {}, {whole});
  bench.builder.release(whole);
  bench.alloc(after);
  bench.launch(1, {view}, {after});
  bench.builder.release(view);
  bench.launch(1, {after}, {});
  bench.free(after);
  const Graph graph = bench.finish();
  CHECK(sim::live_memory(graph)[0].steady.bytes == 150);
  CHECK(sim::peak_memory_bound(graph) == 150);
}

TEST_CASE("host threads that hand over to each other have one order, others have not") {
  const auto has_one_order = [](bool waits_at_once) {
    Bench bench;
    const TensorId a = bench.buffer(1);
    const std::uint32_t second = bench.builder.thread("autograd");
    bench.builder.select(bench.main, Section::body);
    bench.alloc(a);
    bench.launch(1, {}, {a});
    const std::uint32_t made = bench.builder.position() - 1;
    if (!waits_at_once) bench.launch(1, {a}, {});
    bench.builder.host_wait_action(second, 1);
    bench.free(a);
    bench.builder.select(second, Section::body);
    bench.builder.host_wait_action(bench.main, made);
    bench.launch(1, {a}, {});
    return sim::has_one_host_order(bench.finish().programs[0], Section::body);
  };
  CHECK(has_one_order(true));
  CHECK_FALSE(has_one_order(false));
}
