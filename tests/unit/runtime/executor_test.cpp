#include "runtime/executor.h"

#include <set>
#include <catch2/catch.hpp>

#include "core/alloc/config.h"
#include "core/ir/builder.h"
#include "core/run/key.h"
#include "core/store/reader.h"
#include "core/store/recording_writer.h"
#include "runtime/groups.h"
#include "runtime/host/host_backend.h"
#include "sim/engine/engine.h"
#include "tests/fixtures/fixtures.h"
#include "tests/fixtures/parts.h"
#include "tests/support/repetitions.h"
#include "tests/support/scratch.h"

using namespace foregather;
using runtime::RunReport;

namespace {

constexpr runtime::Rating kFast{
    .flops = 1e13, .doubles = 1e13, .memory = 1e13, .link = 1e13, .link_latency = 0};

struct Executed {
  Result<RunReport> report = RunReport();
  run::Run run;
};

Executed execute(const Graph& graph, runtime::RunOptions options = {},
                 const runtime::Rating& rating = kFast) {
  const test::Scratch scratch;
  const std::string path = scratch.path("run.db");
  auto writer = store::RecordingWriter::create(path);
  REQUIRE(writer);
  run::RunInfo info;
  info.name = "test";
  info.kind = run::RunKind::measured;
  (*writer)->info(info);
  if (options.capacity == 0) options.capacity = 4 * GiB;
  if (options.steps == 0) options.steps = 4;
  const auto backend = runtime::make_host_backend(rating);
  Executed executed;
  executed.report = runtime::execute(graph, options, *backend, **writer);
  REQUIRE((*writer)->finish(run::RunState::complete));
  auto run = store::read_run(path);
  if (!run) FAIL(run.error().text());
  executed.run = std::move(*run);
  return executed;
}

sim::Simulation simulated(const Graph& graph, Bytes capacity = 4 * GiB) {
  std::size_t machines = 1;
  for (const RankClass& c : graph.classes)
    machines = std::max(machines, std::size_t{c.hardware} + 1);
  sim::CostTable table;
  table.prices.resize(graph.costs.size());
  for (sim::Price& price : table.prices) price.duration = 1000;
  table.sources = {"test"};
  sim::EngineOptions options;
  options.capacity = capacity;
  auto simulation = sim::simulate(graph, std::vector(machines, table), options);
  if (!simulation) FAIL(simulation.error().text());
  return std::move(*simulation);
}

bool defers_frees(const Graph& graph) {
  for (const Program& program : graph.programs)
    for (const HostThread& thread : program.threads)
      for (const auto& actions : thread.sections)
        for (const Action& action : actions)
          if (action.kind == ActionKind::record_stream) return true;
  return false;
}

}  // namespace

TEST_CASE("every fixture runs, with right numbers and the simulator's memory") {
  runtime::RunOptions options;
  options.steps = test::kSanitized ? 2 : 4;
  for (const auto& [name, make] : test::all_fixtures()) {
    INFO(name);
    Graph graph = make();
    for (Cost& cost : graph.costs) cost.flops /= 1000;  // of real work; the bytes stay
    const Executed executed = execute(graph, options);
    if (!executed.report) FAIL(executed.report.error().text());
    const RunReport& report = *executed.report;
    CHECK_FALSE(report.oom);
    CHECK(report.steps == options.steps);
    const sim::Simulation simulation = simulated(graph);
    const runtime::Ranks ranks = runtime::ranks_of(graph);
    REQUIRE(report.ranks.size() == ranks.ranks.size());
    for (std::size_t r = 0; r < report.ranks.size(); ++r) {
      const sim::ClassResult& expected = simulation.classes[ranks.class_of[r]];
      const run::StepInfo& first = report.ranks[r].first;
      CHECK(first.peak_allocated == expected.first.peaks.allocated);
      CHECK(report.ranks[r].steady.peak_allocated == expected.steady.peaks.allocated);
      if (defers_frees(graph)) continue;
      CHECK(first.peak_requested == expected.first.peaks.requested);
      CHECK(first.peak_active == expected.first.peaks.active);
      CHECK(first.peak_reserved == expected.first.peaks.reserved);
      CHECK(report.ranks[r].steady.peak_reserved == expected.steady.peaks.reserved);
    }
  }
}

TEST_CASE("a recorded step has every op once, in the order of streams and communicators") {
  const Graph graph = test::gradient_accumulation();
  const Executed executed = execute(graph);
  REQUIRE(executed.report);
  CHECK(executed.report->backend.checked_collectives > 0);
  const run::Run& run = executed.run;
  CHECK(run.about.state == run::RunState::complete);
  REQUIRE(run.classes.size() == graph.world_size);
  CHECK(run.steps.size() == graph.world_size * 4);
  for (std::size_t s = 0; s < run.steps.size(); ++s) {
    if (s > 0 && run.steps[s].rank_class == run.steps[s - 1].rank_class)
      CHECK(run.steps[s].begin == run.steps[s - 1].end);
    const auto [first, last] = run::ops_of(run, run::StepRow(s));
    REQUIRE(last > first);
    std::set<std::string> keys;
    for (std::size_t i = first; i < last; ++i) {
      CHECK(keys.insert(run::op_key(run, run::OpRow(i))).second);
      CHECK(run.ops.issued[i] <= run.ops.start[i]);
      CHECK(run.ops.start[i] <= run.ops.transfer[i]);
      CHECK(run.ops.transfer[i] <= run.ops.end[i]);
      CHECK(run.ops.end[i] <= run.steps[s].end);
      for (std::size_t j = first; j < i; ++j) {
        const bool same_stream = run.ops.stream[i] == run.ops.stream[j];
        const bool same_queue =
            run.ops.communicator[i] && run.ops.communicator[i] == run.ops.communicator[j];
        if (same_stream || same_queue)
          CHECK((run.ops.end[j] <= run.ops.start[i] || run.ops.end[i] <= run.ops.start[j]));
      }
    }
  }
  std::size_t steady = 0;
  for (const run::StepInfo& step : run.steps) steady += step.kind == run::StepKind::steady ? 1 : 0;
  CHECK(steady == graph.world_size);
}

namespace {

// In how many steps of three ops the last one waited for the slow one, on another stream. Whatever
// it waited for is recorded.
std::size_t steps_that_wait(const Graph& graph) {
  const Executed executed = execute(graph);
  if (!executed.report) FAIL(executed.report.error().text());
  const run::OpColumns& ops = executed.run.ops;
  std::size_t by_event = 0;
  for (std::size_t s = 0; s < executed.run.steps.size(); ++s) {
    const auto [begin, end] = run::ops_of(executed.run, run::StepRow(s));
    REQUIRE(end - begin == 3);
    std::size_t last = begin;
    for (std::size_t i = begin; i < end; ++i)
      if (ops.start[i] > ops.start[last]) last = i;
    // What let the last op start is what came last.
    std::pair<Ns, run::BoundReason> latest{ops.issued[last], run::BoundReason::host};
    for (std::size_t i = begin; i < end; ++i) {
      if (i == last) continue;
      const bool same_stream = ops.stream[i] == ops.stream[last];
      CHECK(ops.end[i] <= ops.start[last]);
      CHECK((same_stream || ops.end[i] - ops.start[i] >= 20 * kMillisecond));
      latest = std::max(
          latest, {ops.end[i], same_stream ? run::BoundReason::stream : run::BoundReason::event});
    }
    CHECK(ops.reason[last] == latest.second);
    if (latest.second == run::BoundReason::host) continue;
    REQUIRE(ops.bound_by[last]);
    CHECK(ops.end[ops.bound_by[last].row()] == latest.first);
    by_event += latest.second == run::BoundReason::event ? 1 : 0;
  }
  return by_event;
}

}  // namespace

TEST_CASE("a wait for an event orders two streams, and one never recorded does nothing") {
  GraphBuilder builder;
  const ProgramId program = builder.begin_program("rank");
  const StreamId a = builder.stream("a"), b = builder.stream("b");
  const std::uint32_t host = builder.thread("main");
  const CostId slow = test::fixed(builder, OpKind::other, 20 * kMillisecond);
  const CostId quick = test::fixed(builder, OpKind::other, kMillisecond);
  const EventId event = builder.event(), never = builder.event();
  OpSpec on_a, on_b;
  on_a.stream = a;
  on_a.cost = slow;
  on_b.stream = b;
  on_b.cost = quick;
  const OpId first = test::op(builder, on_a, {}), second = test::op(builder, on_b, {});
  const OpId free = test::op(builder, on_b, {});
  for (const Section section : {Section::first, Section::body}) {
    builder.select(host, section);
    builder.wait(b, never);
    builder.launch(first);
    builder.launch(free);
    builder.record(event, a);
    builder.wait(b, event);
    builder.launch(second);
  }
  builder.end_program();
  test::one_class(builder, program, 1);
  const Graph graph = builder.finish();
  // A busy machine may hold up a thread or the other stream for longer than the slow op takes, in
  // all steps of a run, but not in every run.
  std::size_t by_event = 0;
  for (int runs = 0; runs < 20 && by_event == 0; ++runs) by_event = steps_that_wait(graph);
  CHECK(by_event > 0);
}

TEST_CASE("running out of memory is a result") {
  const Graph graph = test::fsdp1_rate_limiter();
  runtime::RunOptions options;
  options.capacity = 2 * MiB;
  const Executed executed = execute(graph, options);
  if (!executed.report) FAIL(executed.report.error().text());
  REQUIRE(executed.report->oom);
  CHECK(executed.report->oom->bytes > 0);
}

// Whether the one reads what the other writes, ThreadSanitizer sees.
TEST_CASE("a job ends while a stream waits for an op that another still performs") {
  GraphBuilder builder;
  const ProgramId program = builder.begin_program("rank");
  const StreamId a = builder.stream("a"), b = builder.stream("b");
  const std::uint32_t host = builder.thread("main");
  const CostId slow = test::fixed(builder, OpKind::other, 60 * kMillisecond);
  const EventId event = builder.event();
  const test::Buffer little = test::buffer(builder, "little", 4 * MiB, Cause::activation);
  const test::Buffer large = test::buffer(builder, "large", 1 * GiB, Cause::activation);
  OpSpec on_a, on_b;
  on_a.stream = a;
  on_b.stream = b;
  on_a.cost = on_b.cost = slow;
  const OpId first = test::op(builder, on_a, {test::write(little)});
  const OpId second = test::op(builder, on_b, {test::read(little)});
  for (const Section section : {Section::first, Section::body}) {
    builder.select(host, section);
    builder.alloc(little.storage, a);
    builder.launch(first);
    builder.record(event, a);
    builder.wait(b, event);
    builder.launch(second);
    builder.host_delay(20 * kMillisecond);
    builder.alloc(large.storage, b);  // no room for it
    builder.free(large.storage);
    builder.free(little.storage);
  }
  builder.end_program();
  test::one_class(builder, program, 1);
  runtime::RunOptions options;
  options.capacity = 64 * MiB;
  const Executed executed = execute(builder.finish(), options);
  if (!executed.report) FAIL(executed.report.error().text());
  REQUIRE(executed.report->oom);
  CHECK(executed.report->oom->bytes == 1 * GiB);
}

TEST_CASE("ranks of several classes run at their own speed") {
  Graph graph = test::chakra_dag();
  for (Cost& cost : graph.costs) cost.flops /= 1000;
  const Executed executed = execute(graph);
  if (!executed.report) FAIL(executed.report.error().text());
  CHECK(executed.report->ranks.size() == 4);
}

TEST_CASE("what memory runs out for, and before which op, is in the run") {
  GraphBuilder builder;
  const ProgramId program = builder.begin_program("rank");
  const StreamId stream = builder.stream("compute");
  const std::uint32_t host = builder.thread("main");
  const test::Buffer little = test::buffer(builder, "little", 4 * MiB, Cause::activation);
  const test::Buffer large = test::buffer(builder, "large", 1 * GiB, Cause::activation);
  OpSpec spec;
  spec.stream = stream;
  spec.cost = test::fixed(builder, OpKind::norm, kMicrosecond);
  const OpId first = test::op(builder, spec, {test::write(little)});
  spec.phase = Phase::backward;
  spec.micro_batch = 3;
  spec.scope = builder.scope("layers.7");
  spec.cost = test::gemm(builder, 8, 8, 8);
  const OpId second = test::op(builder, spec, {test::read(little), test::write(large)});
  for (const Section section : {Section::first, Section::body}) {
    builder.select(host, section);
    builder.alloc(little.storage, stream);
    builder.launch(first);
    builder.alloc(large.storage, stream);  // no room for it
    builder.launch(second);
    builder.free(large.storage);
    builder.free(little.storage);
  }
  builder.end_program();
  test::one_class(builder, program, 1);
  runtime::RunOptions options;
  options.capacity = 64 * MiB;
  const Executed executed = execute(builder.finish(), options);
  if (!executed.report) FAIL(executed.report.error().text());
  REQUIRE(executed.report->oom);
  CHECK(executed.report->oom->next == second);
  const run::Run& run = executed.run;
  REQUIRE(run.failures.size() == 1);
  const run::FailureRecord& failure = run.failures.front();
  CHECK(run.text_of(failure.name) == "large");
  CHECK(failure.bytes == 1 * GiB);
  CHECK(failure.kind == OpKind::gemm);
  CHECK(failure.phase == Phase::backward);
  CHECK(failure.micro_batch == 3);
  CHECK(run.text_of(failure.scope) == "layers.7");
}

TEST_CASE("a job of processes has one a rank, and each runs its own") {
  const Graph graph = test::fsdp1_rate_limiter();
  const std::size_t ranks = runtime::ranks_of(graph).ranks.size();
  REQUIRE(ranks > 1);
  runtime::RunOptions options;
  options.process = runtime::ProcessPlace();
  options.process->launcher = "torchrun";
  options.process->world_size = 7;
  const Executed executed = execute(graph, options);
  REQUIRE_FALSE(executed.report);
  CHECK(executed.report.error().text() ==
        fmt::format("the schedule has {} ranks, and torchrun started 7 processes: expected one a "
                    "rank",
                    ranks));
  options.process->world_size = static_cast<std::uint32_t>(ranks);
  options.process->rank = 1;
  const Executed own = execute(graph, options);
  if (!own.report) FAIL(own.report.error().text());
  REQUIRE(own.report->ranks.size() == 1);
  CHECK(own.report->ranks.front().rank == 1);
  REQUIRE(own.run.classes.size() == 1);
  CHECK(own.run.classes.front().ranks == std::vector<std::uint32_t>{1});
}

TEST_CASE("a rank that meets others in a group without it is refused") {
  GraphBuilder builder;
  const GroupId group = builder.group("first", test::first_ranks(1), 1);
  const ProgramId program = builder.begin_program("rank");
  OpSpec spec;
  spec.stream = builder.stream("comm");
  const std::uint32_t host = builder.thread("main");
  spec.communicator = builder.communicator("tensor parallel", group);
  spec.cost = test::fixed(builder, OpKind::all_reduce, kMicrosecond, 8, group);
  const OpId reduce = test::op(builder, spec, {});
  builder.select(host, Section::body);
  builder.launch(reduce);
  builder.end_program();
  test::one_class(builder, program, 2);
  const Executed executed = execute(builder.finish());
  REQUIRE_FALSE(executed.report);
  CHECK(executed.report.error().text() ==
        "rank 1 meets others on communicator 'tensor parallel', whose group has no place for it");
}

TEST_CASE("wrong numbers end a job, and are told with the op that has them") {
  GraphBuilder builder;
  const ProgramId program = builder.begin_program("rank");
  const StreamId stream = builder.stream("compute");
  const std::uint32_t host = builder.thread("main");
  const test::Buffer whole = test::buffer(builder, "whole", 32, Cause::activation),
                     half = test::buffer(builder, "half", 16, Cause::activation);
  const std::array<std::int64_t, 1> eight{8}, four{4};
  const TensorId from = builder.tensor(whole.storage, DType::f32, eight);
  // Two tensors of one place: what is cast into the first one is overwritten.
  const TensorId first = builder.tensor(half.storage, DType::bf16, four),
                 second = builder.tensor(half.storage, DType::bf16, four);
  OpSpec spec;
  spec.stream = stream;
  spec.cost = test::streaming(builder, OpKind::elementwise, 0, 32);
  const OpId make = test::op(builder, spec, {{from, Access::write, 0, 32}});
  spec.scope = builder.scope("layers.7");
  spec.phase = Phase::forward;
  spec.cost = test::streaming(builder, OpKind::cast, 32, 16);
  const OpId cast = test::op(
      builder, spec,
      {{from, Access::read, 0, 32}, {first, Access::write, 0, 8}, {second, Access::write, 0, 8}});
  for (const Section section : {Section::first, Section::body}) {
    builder.select(host, section);
    builder.alloc(whole.storage, stream);
    builder.alloc(half.storage, stream);
    builder.launch(make);
    builder.launch(cast);
    builder.free(half.storage);
    builder.free(whole.storage);
  }
  builder.end_program();
  test::one_class(builder, program, 1);
  const Executed executed = execute(builder.finish());
  REQUIRE_FALSE(executed.report);
  CHECK(executed.report.error().fault == Fault::work);
  CHECK_THAT(
      executed.report.error().text(),
      Catch::StartsWith("r0/s0/m0/layers.7/forward/cast/0: wrong numbers: element 0 of 8 is ") &&
          Catch::EndsWith(" was cast to bf16"));
}
