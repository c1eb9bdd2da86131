#include "runtime/recorder.h"

#include <catch2/catch.hpp>

#include "core/ir/builder.h"
#include "core/run/key.h"
#include "core/store/reader.h"
#include "core/store/recording_writer.h"
#include "runtime/groups.h"
#include "tests/fixtures/parts.h"
#include "tests/support/scratch.h"

using namespace foregather;
using run::BoundReason;

namespace {

constexpr std::uint32_t kStep = 1;

// Two ranks, each with an all-reduce and two ops behind it on one stream.
struct Told {
  Graph graph;
  OpId reduce, second, third;
};

Told told() {
  GraphBuilder builder;
  const GroupId group = builder.group("all", test::first_ranks(2), 1);
  const ProgramId program = builder.begin_program("rank");
  OpSpec spec;
  spec.stream = builder.stream("compute");
  const std::uint32_t host = builder.thread("main");
  Told told;
  spec.cost = test::fixed(builder, OpKind::other, kMicrosecond);
  OpSpec meeting = spec;
  meeting.communicator = builder.communicator("all", group);
  meeting.cost = test::fixed(builder, OpKind::all_reduce, kMicrosecond, 8, group);
  told.reduce = test::op(builder, meeting, {});
  told.second = test::op(builder, spec, {});
  told.third = test::op(builder, spec, {});
  builder.select(host, Section::body);
  for (const OpId op : {told.reduce, told.second, told.third}) builder.launch(op);
  builder.end_program();
  test::one_class(builder, program, 2);
  told.graph = builder.finish();
  return told;
}

// What `tell` says of one step of each rank, as read back.
template <class Tell>
run::Run recorded(const Told& told, Tell&& tell) {
  const test::Scratch scratch;
  const std::string path = scratch.path("run.db");
  auto writer = store::RecordingWriter::create(path);
  REQUIRE(writer);
  run::RunInfo info;
  info.name = "test";
  info.kind = run::RunKind::measured;
  (*writer)->info(info);
  const runtime::Ranks ranks = runtime::ranks_of(told.graph);
  runtime::Job job;
  job.graph = &told.graph;
  job.ranks = ranks.ranks;
  job.class_of = ranks.class_of;
  {
    runtime::Recorder recorder(job, **writer, kSecond, "test");
    for (std::uint32_t rank = 0; rank < 2; ++rank) recorder.begin_step(rank, kStep, 0);
    tell(recorder);
    for (std::uint32_t rank = 0; rank < 2; ++rank) recorder.end_step(rank, kStep, 60, 3, {});
    REQUIRE(recorder.finish());
  }
  REQUIRE((*writer)->finish(run::RunState::complete));
  auto run = store::read_run(path);
  if (!run) FAIL(run.error().text());
  return std::move(*run);
}

runtime::OpDone done(std::uint32_t rank, OpId op, Ns start, BoundReason reason, OpId by = {},
                     std::uint32_t by_rank = 0) {
  runtime::OpDone event;
  event.rank = rank;
  event.op = op;
  event.step = kStep;
  event.start = event.transfer = start;
  event.end = start + 10;
  event.reason = reason;
  event.bound_by = by;
  event.bound_rank = by_rank;
  return event;
}

std::vector<std::size_t> ops_of_rank(const run::Run& run, std::uint32_t rank) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < run.ops.step.size(); ++i)
    if (run.steps[run.ops.step[i].row()].rank_class == run::ClassRow(rank)) found.push_back(i);
  return found;
}

}  // namespace

TEST_CASE("ops behind a collective whose last rank has yet to tell keep what bound them") {
  const Told ops = told();
  const run::Run run = recorded(ops, [&](runtime::Recorder& recorder) {
    recorder.done(done(0, ops.reduce, 10, BoundReason::rendezvous, ops.reduce, 1));
    recorder.done(done(0, ops.second, 20, BoundReason::stream, ops.reduce));
    recorder.done(done(0, ops.third, 30, BoundReason::stream, ops.second));
    recorder.done(done(1, ops.reduce, 10, BoundReason::host));
    recorder.done(done(1, ops.second, 20, BoundReason::stream, ops.reduce, 1));
    recorder.done(done(1, ops.third, 30, BoundReason::stream, ops.second, 1));
  });
  REQUIRE(run.ops.step.size() == 6);
  const auto first = ops_of_rank(run, 0), other = ops_of_rank(run, 1);
  REQUIRE(first.size() == 3);
  REQUIRE(other.size() == 3);
  CHECK(run.ops.bound_by[first[0]] == run::OpRow(other[0]));
  for (const auto& of_rank : {first, other})
    for (std::size_t i = 1; i < 3; ++i) {
      CHECK(run.ops.start[of_rank[i - 1]] < run.ops.start[of_rank[i]]);
      CHECK(run.ops.bound_by[of_rank[i]] == run::OpRow(of_rank[i - 1]));
      CHECK(run.ops.bound_by_previous_step[of_rank[i]] == 0);
    }
}

TEST_CASE("ops behind a collective whose last rank never tells are recorded") {
  const Told ops = told();
  const run::Run run = recorded(ops, [&](runtime::Recorder& recorder) {
    recorder.done(done(0, ops.reduce, 10, BoundReason::rendezvous, ops.reduce, 1));
    recorder.done(done(0, ops.second, 20, BoundReason::stream, ops.reduce));
  });
  const auto first = ops_of_rank(run, 0);
  REQUIRE(first.size() == 2);
  CHECK_FALSE(run.ops.bound_by[first[0]]);
  CHECK(run.ops.bound_by_previous_step[first[0]] == 0);
  CHECK(run.ops.bound_by[first[1]] == run::OpRow(first[0]));
}

TEST_CASE("an op bound by the step before says so") {
  const Told ops = told();
  const run::Run run = recorded(ops, [&](runtime::Recorder& recorder) {
    recorder.done(done(0, ops.reduce, 10, BoundReason::stream, ops.third));
  });
  REQUIRE(run.ops.step.size() == 1);
  CHECK_FALSE(run.ops.bound_by[0]);
  CHECK(run.ops.bound_by_previous_step[0] == 1);
}

TEST_CASE("an op that is let go while it waits for another rank goes on waiting") {
  const Told ops = told();
  const run::Run run = recorded(ops, [&](runtime::Recorder& recorder) {
    recorder.done(done(0, ops.reduce, 10, BoundReason::rendezvous, ops.reduce, 1));
    recorder.done(done(0, ops.second, 20, BoundReason::rendezvous, ops.second, 1));
    recorder.done(done(1, ops.reduce, 10, BoundReason::host));
    CHECK(recorder.ops() == 2);
    recorder.done(done(1, ops.second, 20, BoundReason::host));
    CHECK(recorder.ops() == 4);
  });
  const auto first = ops_of_rank(run, 0), other = ops_of_rank(run, 1);
  REQUIRE(first.size() == 2);
  REQUIRE(other.size() == 2);
  CHECK(run.ops.bound_by[first[0]] == run::OpRow(other[0]));
  CHECK(run.ops.bound_by[first[1]] == run::OpRow(other[1]));
}

TEST_CASE("a rank that meets one that has yet to begin its step waits for it") {
  const Told ops = told();
  const run::Run run = recorded(ops, [&](runtime::Recorder& recorder) {
    const auto late = [&](runtime::OpDone event) {
      event.step = kStep + 1;
      return event;
    };
    recorder.begin_step(0, kStep + 1, 100);
    recorder.done(late(done(0, ops.reduce, 110, BoundReason::rendezvous, ops.reduce, 1)));
    CHECK(recorder.ops() == 0);
    recorder.begin_step(1, kStep + 1, 100);
    recorder.done(late(done(1, ops.reduce, 110, BoundReason::host)));
    CHECK(recorder.ops() == 2);
    for (std::uint32_t rank = 0; rank < 2; ++rank) recorder.end_step(rank, kStep + 1, 160, 1, {});
  });
  const auto first = ops_of_rank(run, 0), other = ops_of_rank(run, 1);
  REQUIRE(first.size() == 1);
  REQUIRE(other.size() == 1);
  CHECK(run.ops.bound_by[first[0]] == run::OpRow(other[0]));
}
