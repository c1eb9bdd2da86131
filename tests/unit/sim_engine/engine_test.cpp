// Timelines that can be worked out by hand.
#include <catch2/catch.hpp>

#include "core/ir/builder.h"
#include "core/ir/op_key.h"
#include "sim/engine/engine.h"

namespace foregather::sim {
namespace {

// A job whose ops have the given duration; launching costs `host` each.
class Job {
 public:
  GraphBuilder b;
  StreamId compute, comm;

  Job() { program(); }

  void program() {
    b.begin_program("rank");
    compute = b.stream("compute");
    comm = b.stream("comm");
    b.thread("main");
    b.select(0, Section::body);
  }
  CommunicatorId world(std::uint32_t ranks) {
    std::vector<std::uint32_t> all(ranks);
    for (std::uint32_t r = 0; r < ranks; ++r) all[r] = r;
    return b.communicator("world", b.group("world", all, 1));
  }
  OpId launch(Ns duration, StreamId stream, CommunicatorId communicator = {},
              std::array<double, kResources> demand = {}) {
    Cost cost;
    cost.flops = static_cast<std::int64_t>(durations_.size()) + 1;  // each op a row of its own
    durations_.push_back(duration);
    demands_.push_back(demand);
    OpSpec spec;
    spec.kind = communicator ? OpKind::all_gather : OpKind::gemm;
    spec.communicator = communicator;
    spec.stream = stream;
    spec.cost = b.cost(cost);
    const OpId op = b.op(spec);
    b.launch(op);
    return op;
  }
  StorageId storage(Bytes bytes) {
    Storage row;
    row.bytes = bytes;
    return b.storage(row);
  }
  void add_class(std::uint32_t rank, std::size_t program = 0, Ns delay = 0) {
    RankClass rank_class;
    rank_class.program = ProgramId(program);
    rank_class.start_delay = delay;
    b.rank_class(rank_class, std::span(&rank, 1));
  }
  // One class unless add_class() was called.
  Result<Simulation> run(EngineOptions options = {}) {
    b.end_program();
    if (b.graph().classes.empty()) add_class(0);
    graph = b.finish();
    table.sources.push_back("by hand");
    for (const Cost& cost : graph.costs) {
      const auto row = static_cast<std::size_t>(cost.flops - 1);
      Price price;
      price.duration = durations_[row];
      price.host = host;
      for (std::size_t r = 0; r < kResources; ++r)
        price.demand[r] = static_cast<std::uint16_t>(demands_[row][r] * kWhole);
      table.prices.push_back(price);
    }
    return simulate(graph, std::vector{table}, options);
  }

  Ns host = 0;
  CostTable table;
  Graph graph;

 private:
  std::vector<Ns> durations_;
  std::vector<std::array<double, kResources>> demands_;
};

struct Span {
  Ns start, end;
  friend bool operator==(const Span&, const Span&) = default;
};

// Times of a steady step, from its begin.
Span span(const Simulation& simulation, OpId op, std::size_t c = 0) {
  const StepResult& step = simulation.classes[c].steady;
  const OpTime& time = step.ops[op.row()];
  return {time.start - step.begin, time.end - step.begin};
}

EngineOptions no_contention() {
  EngineOptions options;
  options.contention = false;
  return options;
}

}  // namespace

TEST_CASE("ops of a stream run one after the other, streams side by side") {
  Job job;
  const OpId a = job.launch(100, job.compute);
  const OpId b = job.launch(50, job.compute);
  const OpId c = job.launch(120, job.comm);
  const auto result = job.run();
  REQUIRE(result);
  // The device works through steps that cost the host nothing: each stream at its own pace.
  CHECK(span(*result, b).start - span(*result, a).start == 100);
  CHECK(span(*result, b).end - span(*result, b).start == 50);
  CHECK(result->classes[0].steady.ops[b.row()].reason == Reason::stream);
  CHECK(result->classes[0].steady.ops[b.row()].bound_by == a.row());
  CHECK(span(*result, c).end - span(*result, c).start == 120);
  CHECK(result->classes[0].steady.time() == 150);
}

TEST_CASE("a step whose launches take longer than its work is bound by the host") {
  Job job;
  job.host = 70;
  job.launch(10, job.compute);
  const OpId b = job.launch(20, job.compute);
  const auto result = job.run();
  REQUIRE(result);
  CHECK(result->classes[0].steady.time() == 140);
  CHECK(result->classes[0].steady.ops[b.row()].reason == Reason::host);
}

TEST_CASE("a stream waits for an event of another") {
  Job job;
  const EventId gathered = job.b.event();
  const OpId a = job.launch(100, job.comm);
  job.b.record(gathered, job.comm);
  job.b.wait(job.compute, gathered);
  const OpId b = job.launch(10, job.compute);
  const auto result = job.run();
  REQUIRE(result);
  CHECK(span(*result, b).start == span(*result, a).end);
  CHECK(result->classes[0].steady.ops[b.row()].reason == Reason::event);
  CHECK(result->classes[0].steady.ops[b.row()].bound_by == a.row());
}

TEST_CASE("a host wait stops the thread, and pays to resume") {
  Job job;
  job.table.host.synchronize = 7;
  job.launch(100, job.compute);
  job.b.act({ActionKind::host_wait_stream, job.compute, 0, 0});
  const OpId b = job.launch(10, job.compute);
  const auto result = job.run();
  REQUIRE(result);
  CHECK(result->classes[0].steady.time() == 117);
  CHECK(result->classes[0].steady.ops[b.row()].reason == Reason::host);
}

TEST_CASE("collectives of one communicator take turns on whatever streams") {
  Job job;
  const CommunicatorId world = job.world(2);
  const OpId a = job.launch(100, job.compute, world);
  const OpId b = job.launch(40, job.comm, world);
  const auto result = job.run();
  REQUIRE(result);
  CHECK(span(*result, b).start == span(*result, a).end);
  CHECK(result->classes[0].steady.ops[b.row()].reason == Reason::communicator);
}

TEST_CASE("a collective begins when the last rank arrives") {
  for (const bool contention : {false, true}) {
    Job job;
    const CommunicatorId world = job.world(2);
    job.launch(30, job.compute);
    const OpId fast = job.launch(100, job.compute, world);
    job.b.end_program();
    job.program();
    job.launch(80, job.compute);
    const OpId late = job.launch(100, job.compute, world);
    job.add_class(0, 0);
    job.add_class(1, 1);
    EngineOptions options;
    options.contention = contention;
    const auto result = job.run(options);
    REQUIRE(result);
    const OpTime& early = result->classes[0].steady.ops[fast.row()];
    const OpTime& last =
        result->classes[1].steady.ops[late.row() - result->classes[0].steady.ops.size()];
    CHECK(early.transfer == last.start);
    CHECK(early.transfer - early.start == 50);  // wait inside the op
    CHECK(early.end - early.transfer == 100);
    CHECK(early.end == last.end);
    CHECK(early.reason == Reason::rendezvous);
    CHECK(early.bound_by == late.row());
    CHECK(early.bound_class == 1);
    CHECK(result->classes[0].steady.time() == 180);
  }
}

TEST_CASE("two ops that both want a whole resource run at half speed while they overlap") {
  Job job;
  const OpId a = job.launch(100, job.compute, {}, {1.0, 0, 0, 0});
  const OpId b = job.launch(40, job.comm, {}, {1.0, 0, 0, 0});
  job.b.act({ActionKind::host_wait_device, {}, 0, 0});
  const auto result = job.run();
  REQUIRE(result);
  CHECK(span(*result, b) == Span{0, 80});   // 40 at half speed
  CHECK(span(*result, a) == Span{0, 140});  // 40 of its 100 at half speed, then alone
}

TEST_CASE("a share goes to who wants less, the rest is for who wants more") {
  Job job;
  // HBM: 3/4 and 1/2 are wished; fair is 1/2 each, so the first runs at 2/3, the second at full
  // speed.
  const OpId a = job.launch(100, job.compute, {}, {0, 0.75, 0, 0});
  const OpId b = job.launch(300, job.comm, {}, {0, 0.5, 0, 0});
  job.b.act({ActionKind::host_wait_device, {}, 0, 0});
  const auto result = job.run();
  REQUIRE(result);
  CHECK(span(*result, b) == Span{0, 300});
  CHECK(span(*result, a).end >= 150);
  CHECK(span(*result, a).end <= 151);  // speeds are fractions of 2^15
}

TEST_CASE("a full launch queue stops the host until the oldest launch has ended") {
  Job job;
  job.table.host.launch_queue = 2;
  job.launch(100, job.compute);
  job.launch(100, job.compute);
  const OpId third = job.launch(100, job.compute);
  const auto result = job.run(no_contention());
  REQUIRE(result);
  const StepResult& steady = result->classes[0].steady;
  // It is issued when the launch two before it has ended, which is when the one before begins.
  CHECK(steady.ops[third.row()].issued == steady.ops[third.row() - 1].start);
  CHECK(steady.time() == 300);
}

TEST_CASE("a rank that starts late delays what it takes part in, every step") {
  Job job;
  const CommunicatorId world = job.world(2);
  const OpId op = job.launch(10, job.compute, world);
  job.b.act({ActionKind::host_wait_device, {}, 0, 0});
  job.add_class(0);
  job.add_class(1, 0, 500);
  const auto result = job.run();
  REQUIRE(result);
  const OpTime& early = result->classes[0].steady.ops[op.row()];
  CHECK(early.transfer - early.start == 500);
  CHECK(result->classes[0].steady.time() == 510);
}

TEST_CASE("a first step that differs is not the steady one") {
  Job job;
  job.b.select(0, Section::first);
  job.launch(1000, job.compute);
  job.b.select(0, Section::body);
  job.launch(10, job.compute);
  const auto result = job.run();
  REQUIRE(result);
  CHECK(result->classes[0].first.time() == 1000);
  CHECK(result->classes[0].steady.time() == 10);
  CHECK(result->converged);
}

TEST_CASE("what is launched before the first step may outlast it") {
  Job job;
  job.b.select(0, Section::init);
  job.launch(1000, job.compute);
  job.b.select(0, Section::body);
  job.launch(10, job.compute);
  const auto result = job.run();
  REQUIRE(result);
  CHECK(result->classes[0].steady.time() == 10);
}

namespace {

// Rank 0 computes behind the collective, rank 1 beside it: that one gets ahead step by step, until
// it has nothing else left to do than to wait.
Result<Simulation> drifting(Ns slower, Ns faster) {
  Job job;
  job.table.host.synchronize = 0;
  const CommunicatorId world = job.world(2);
  job.launch(10, job.compute, world);
  job.launch(slower, job.compute);
  job.b.act({ActionKind::host_wait_device, {}, 0, 0});
  job.b.end_program();
  job.program();
  job.launch(10, job.comm, world);
  job.launch(faster, job.compute);
  job.b.act({ActionKind::host_wait_device, {}, 0, 0});
  job.add_class(0, 0);
  job.add_class(1, 1);
  return job.run();
}

}  // namespace

TEST_CASE("ranks that meet in every step end up with one step time") {
  const auto result = drifting(100, 99);
  REQUIRE(result);
  CHECK(result->converged);
  CHECK(result->classes[0].steady.time() == 110);
  const StepResult& fast = result->classes[1].steady;
  CHECK(fast.time() == 110);
  CHECK(fast.ops[0].transfer - fast.ops[0].start == 100);
}

TEST_CASE("a step has not settled while ranks that meet drift apart") {
  const auto result = drifting(100'000, 100'009);
  REQUIRE(result);
  CHECK_FALSE(result->converged);
  CHECK(result->steps == 101);
}

TEST_CASE("ranks that met before the first step keep step times of their own") {
  Job job;
  const CommunicatorId world = job.world(2);
  job.b.select(0, Section::init);
  job.launch(10, job.compute, world);
  job.b.select(0, Section::body);
  job.launch(100, job.compute);
  job.b.end_program();
  job.program();
  job.b.select(0, Section::init);
  job.launch(10, job.compute, world);
  job.b.select(0, Section::body);
  job.launch(50, job.compute);
  job.add_class(0, 0);
  job.add_class(1, 1);
  const auto result = job.run();
  REQUIRE(result);
  CHECK(result->converged);
  CHECK(result->steps == 4);
  CHECK(result->classes[0].steady.time() == 100);
  CHECK(result->classes[1].steady.time() == 50);
}

TEST_CASE("running out of memory names the storage and the op that needed it") {
  Job job;
  const StorageId fits = job.storage(20 * MiB);
  const StorageId big = job.storage(30 * MiB);
  job.b.alloc(fits, job.compute);
  job.launch(10, job.compute);
  job.b.alloc(big, job.compute);
  const OpId needs = job.launch(10, job.compute);
  job.b.free(big);
  job.b.free(fits);
  for (const bool record : {false, true}) {
    Job copy = job;
    EngineOptions options;
    options.capacity = 40 * MiB;
    options.record_memory = record;
    const auto result = copy.run(options);
    REQUIRE(result);
    REQUIRE(result->oom);
    CHECK(result->oom->storage == big);
    CHECK(result->oom->op == needs);
    CHECK(result->oom->requested == 30 * MiB);
    CHECK_FALSE(result->oom->in_first_step);  // section first is empty here
    CHECK(result->classes[0].steady.peaks.reserved == 20 * MiB);
  }
}

TEST_CASE("driver calls cost the host time in the first steps only") {
  Job job;
  job.table.host.device_malloc = 1000;
  job.table.host.alloc = 1;
  const StorageId storage = job.storage(20 * MiB);
  job.b.select(0, Section::first);
  job.b.alloc(storage, job.compute);
  job.launch(10, job.compute);
  job.b.free(storage);
  job.b.select(0, Section::body);
  job.b.alloc(storage, job.compute);
  job.launch(10, job.compute);
  job.b.free(storage);
  const auto result = job.run();
  REQUIRE(result);
  CHECK(result->classes[0].first.time() == 1011);
  CHECK(result->classes[0].steady.time() == 10);
}

TEST_CASE("threads that wait for each other are a deadlock, named") {
  Job job;
  const std::uint32_t second = job.b.thread("other");
  job.b.select(0, Section::body);
  job.b.host_wait_action(second, 0);
  job.b.select(second, Section::body);
  job.b.host_wait_action(0, 0);
  const auto result = job.run();
  REQUIRE_FALSE(result);
  CHECK(result.error().message.find("deadlock") != std::string::npos);
  CHECK(result.error().message.find("'other'") != std::string::npos);
}

TEST_CASE("a launch that finds no room in the queue is named in the deadlock") {
  Job job;
  job.table.host.launch_queue = 1;
  const CommunicatorId a = job.world(2);
  const CommunicatorId b = job.world(2);
  job.launch(1, job.compute, a);
  const OpId first = job.launch(1, job.compute, b);
  job.launch(1, job.compute, a);
  job.b.end_program();
  job.program();
  job.launch(1, job.compute, b);
  const OpId second = job.launch(1, job.compute, a);
  job.launch(1, job.compute, b);
  job.add_class(0, 0);
  job.add_class(1, 1);
  const auto result = job.run();
  REQUIRE_FALSE(result);
  CHECK(result.error().message ==
        "deadlock: every host thread waits: class 0 thread 'main' at action 1 (" +
            op_key(job.graph, first, 0, 0) + "), class 1 thread 'main' at action 1 (" +
            op_key(job.graph, second, 1, 0) + ")");
}

TEST_CASE("ranks whose collectives have another order are a deadlock") {
  Job job;
  const CommunicatorId a = job.world(2);
  const CommunicatorId b = job.world(2);
  job.launch(1, job.compute, a);
  job.launch(1, job.compute, b);
  job.b.act({ActionKind::host_wait_device, {}, 0, 0});
  job.b.end_program();
  job.program();
  job.launch(1, job.compute, b);
  job.launch(1, job.compute, a);
  job.b.act({ActionKind::host_wait_device, {}, 0, 0});
  job.add_class(0, 0);
  job.add_class(1, 1);
  CHECK_FALSE(job.run());
}

TEST_CASE("a class without a host thread is refused") {
  GraphBuilder builder;
  builder.begin_program("empty");
  builder.end_program();
  RankClass rank_class;
  rank_class.program = ProgramId(0);
  const std::uint32_t rank = 0;
  builder.rank_class(rank_class, std::span(&rank, 1));
  const Graph graph = builder.finish();
  const auto result = simulate(graph, std::vector<CostTable>(1), {});
  REQUIRE_FALSE(result);
  CHECK(result.error().message.find("no host thread") != std::string::npos);
}

}  // namespace foregather::sim
