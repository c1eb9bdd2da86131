#include "core/store/recording_writer.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <random>
#include <thread>
#include <catch2/catch.hpp>

#include "core/store/reader.h"
#include "core/store/sqlite.h"
#include "core/store/writer.h"
#include "tests/support/scratch.h"

using namespace foregather;
using namespace foregather::store;

namespace {

run::RunInfo info() {
  run::RunInfo about;
  about.name = "job";
  about.kind = run::RunKind::measured;
  about.warnings = {"early"};
  return about;
}

/// Two ranks with a stream each.
void begin(run::RecordingSink& sink) {
  sink.info(info());
  for (const std::uint32_t rank : {0U, 1U}) {
    const auto row = sink.add(run::ClassInfo{sink.text("rank"), {rank}});
    sink.add(run::StreamInfo{row, sink.text("stream"), 0});
    sink.add(run::ThreadInfo{row, sink.text("process"), sink.text("main")});
  }
}

run::StepRow add_step(run::RecordingSink& sink, std::uint32_t rank, std::uint32_t number) {
  run::StepInfo step;
  step.rank_class = run::ClassRow(rank);
  step.kind = run::StepKind::other;
  step.number = number;
  return sink.add(step);
}

run::OpRow add_op(run::RecordingSink& sink, run::StepRow step, std::uint32_t rank, Ns end,
                  run::OpRow bound_by = {}) {
  run::OpRecord op;
  op.step = step;
  op.stream = run::StreamRow(rank);
  op.start = op.transfer = end - 1;
  op.end = end;
  op.bound_by = bound_by;
  op.scope = sink.text("scope " + std::to_string(end));
  op.launch = sink.add(run::HostCallRecord{run::ThreadRow(rank), sink.text("hostLaunch"), 0, end});
  return sink.add(op);
}

std::string integrity(const std::string& path) {
  auto database = Database::open(path);
  if (!database) return database.error().text();
  auto query = database->prepare("PRAGMA integrity_check");
  if (!query) return query.error().text();
  const auto row = query->next();
  return row && *row ? std::string(query->text(0)) : "nothing";
}

}  // namespace

TEST_CASE("a recording reads in the order of its steps, whoever wrote first") {
  const test::Scratch scratch;
  const std::string path = scratch.path("run.db");
  auto writer = RecordingWriter::create(path);
  REQUIRE(writer);
  run::RecordingSink& sink = **writer;
  begin(sink);
  const auto of_1 = add_step(sink, 1, 0), of_0 = add_step(sink, 0, 0);
  const auto a = add_op(sink, of_1, 1, 10);
  add_op(sink, of_0, 0, 11, a);
  REQUIRE(sink.commit());
  const auto cut = read_run(path);
  if (!cut) FAIL(cut.error().text());
  CHECK(cut->about.state == run::RunState::under_way);
  CHECK(cut->ops.size() == 2);

  const auto next = add_step(sink, 1, 1);
  add_op(sink, next, 1, 20);
  const auto late = add_op(sink, of_0, 0, 21, a);
  sink.add(run::CollectiveRecord{late, sink.text("gather"), {}, {}, {}, 1, 2, 2, {}});
  Cost cost;
  cost.flops = 5;
  cost.m = 3;
  cost.kernels = 300;
  sink.add(run::KernelWork{sink.text("kernel"), cost});
  run::StepInfo changed;
  changed.rank_class = run::ClassRow(0);
  changed.kind = run::StepKind::steady;
  changed.end = 21;
  changed.peak_at = late;
  sink.change(of_0, changed);
  REQUIRE((*writer)->finish(run::RunState::complete, std::vector<std::string>{"late", "later"}));
  CHECK_FALSE(std::filesystem::exists(path + "-journal"));

  const auto run = read_run(path);
  if (!run) FAIL(run.error().text());
  CHECK(run->about.state == run::RunState::complete);
  CHECK(run->about.warnings == std::vector<std::string>{"early", "late", "later"});
  REQUIRE(run->steps.size() == 3);
  CHECK(run->steps[0].rank_class == run::ClassRow(0));
  CHECK(run->steps[0].kind == run::StepKind::steady);
  CHECK(run->steps[2].number == 1);
  CHECK(run->ops.end == std::vector<Ns>{11, 21, 10, 20});
  CHECK(run->ops.bound_by[0] == run::OpRow(2));
  CHECK(run->ops.bound_by[1] == run::OpRow(2));
  CHECK(run->steps[0].peak_at == run::OpRow(1));
  CHECK(run->calls[run->ops.launch[1].row()].end == 21);
  CHECK(run->text_of(run->ops.scope[1]) == "scope 21");
  REQUIRE(run->collectives.size() == 1);
  CHECK(run->collectives[0].op == run::OpRow(1));
  REQUIRE(run->works.size() == 1);
  CHECK(run->works[0].cost == cost);

  // And as any run into another database.
  const std::string copy = scratch.path("copy.db");
  auto other = RunWriter::create(copy);
  REQUIRE(other);
  REQUIRE(other->write(*run));
  REQUIRE(other->finish());
  const auto again = read_run(copy);
  REQUIRE(again);
  CHECK(again->ops.end == run->ops.end);
  CHECK(again->works == run->works);
}

TEST_CASE("a recording is a new file") {
  const test::Scratch scratch;
  const auto over = RecordingWriter::create(scratch.write("there.db", "what somebody keeps"));
  REQUIRE_FALSE(over);
  CHECK(over.error().fault == Fault::input);
  CHECK(over.error().message.find("exists already") != std::string::npos);
  const auto nowhere = RecordingWriter::create(scratch.path("no/such/folder.db"));
  REQUIRE_FALSE(nowhere);
  CHECK(nowhere.error().fault == Fault::input);
}

// Commits as fast as it can, so that most kills meet a transaction.
TEST_CASE("what was committed is there after a kill, and nothing else") {
  auto* const shared = static_cast<std::atomic<int>*>(::mmap(nullptr, sizeof(std::atomic<int>),
                                                             PROT_READ | PROT_WRITE,
                                                             MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  REQUIRE(shared != MAP_FAILED);
  std::mt19937 random(5);
  constexpr int kOps = 50;
  int met = 0;
  for (int i = 0; i < 60; ++i) {
    const test::Scratch scratch;
    const std::string path = scratch.path("run.db");
    *shared = 0;
    const pid_t child = ::fork();
    if (child == 0) {
      auto writer = RecordingWriter::create(path);
      if (!writer) ::_exit(1);
      begin(**writer);
      const auto step = add_step(**writer, 0, 0);
      for (Ns time = 1;; ++*shared) {
        for (int op = 0; op < kOps; ++op) add_op(**writer, step, 0, ++time);
        if (!(*writer)->commit()) ::_exit(1);
      }
    }
    REQUIRE(child > 0);
    // Every second one is killed as it begins, the others once there is something to lose.
    for (int wait = 0; i % 2 == 0 && *shared == 0 && wait < 10'000; ++wait)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(
        std::chrono::microseconds(std::uniform_int_distribution(0, 40'000)(random)));
    ::kill(child, SIGKILL);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    const int commits = *shared;
    if (commits == 0) continue;
    ++met;
    CHECK(integrity(path) == "ok");
    const auto run = read_run(path);
    if (!run) FAIL(run.error().text());
    CHECK(run->about.state == run::RunState::under_way);
    // The last commit may have been done and not yet counted.
    CHECK((run->ops.size() == static_cast<std::size_t>(commits) * kOps ||
           run->ops.size() == static_cast<std::size_t>(commits + 1) * kOps));
  }
  ::munmap(shared, sizeof(std::atomic<int>));
  CHECK(met > 20);
}
