// As many ops as are read by several threads.
#include <atomic>
#include <catch2/catch.hpp>

#include "core/base/interrupt.h"
#include "core/store/reader.h"
#include "core/store/sqlite.h"
#include "tests/support/scratch.h"
#include "tests/support/written_run.h"

using namespace foregather;

namespace {

constexpr std::size_t kOps = 600'000;

std::string written(const test::Scratch& folder) {
  run::Run run;
  const auto rank = run.add(run::ClassInfo{run.text("all"), {0}});
  run::OpRecord op;
  op.stream = run.add(run::StreamInfo{rank, run.text("compute"), 0});
  run::StepInfo step;
  step.rank_class = rank;
  op.step = run.add(step);
  run.ops.reserve(kOps);
  for (std::size_t i = 0; i < kOps; ++i) {
    op.ordinal = static_cast<std::uint32_t>(i);
    op.start = op.transfer = static_cast<Ns>(10 * i);
    op.end = op.start + static_cast<Ns>(i % 9);
    op.bytes = static_cast<Bytes>(i * 7);
    run.add(op);
  }
  return test::written(folder.path("run.db"), run);
}

}  // namespace

TEST_CASE("store: a run of many ops reads back as it was, a gap in it is damage") {
  const test::Scratch folder;
  const std::string path = written(folder);
  const auto run = store::read_run(path);
  REQUIRE(run);
  REQUIRE(run->ops.size() == kOps);
  for (const std::size_t i : {std::size_t{0}, kOps / 2 - 1, kOps / 2, kOps - 1}) {
    CHECK(run->ops.ordinal[i] == i);
    CHECK(run->ops.end[i] - run->ops.start[i] == static_cast<Ns>(i % 9));
    CHECK(run->ops.bytes[i] == static_cast<Bytes>(i * 7));
  }
  std::atomic<bool> stop = true;
  {
    const Interruptible scope(stop);
    const auto canceled = store::read_run(path);
    REQUIRE_FALSE(canceled);
    CHECK(canceled.error().message == "reading was canceled");
  }
  auto database = store::Database::open_in_place(path);
  REQUIRE(database);
  REQUIRE(database->execute("DELETE FROM op WHERE id = 400000"));
  REQUIRE(database->finish());
  const auto damaged = store::read_run(path);
  REQUIRE_FALSE(damaged);
  CHECK(damaged.error().message == "is damaged: row 400000 of table op");
}
