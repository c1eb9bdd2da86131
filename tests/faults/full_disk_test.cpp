// A sweep whose disk is full.
#include <string>
#include <vector>
#include <catch2/catch.hpp>

#include "core/store/sweep_reader.h"
#include "tasks/sweep.h"
#include "tests/faults/small_disk.h"
#include "tests/support/places.h"
#include "tests/support/processes.h"
#include "tests/support/repetitions.h"
#include "tests/support/scratch.h"
#include "tests/support/skip.h"

using namespace foregather;

namespace {

class Kept final : public run::SweepSink {
 public:
  Status add(const run::SweepPoint& point) override {
    points.push_back(point);
    return {};
  }
  std::vector<run::SweepPoint> points;
};

}  // namespace

TEST_CASE("a sweep whose disk fills up says so, keeps its rows and goes on with more room") {
  const test::Scratch scratch;
  test::SmallDisk disk(scratch.path("disk"), "size=8k");
  if (!disk.is_there()) FOREGATHER_SKIP("mounting a small file system is not permitted");
  tasks::SweepRequest request;
  request.source = test::source_dir() + "/traces/samples/tiny_fsdp2.toml";
  constexpr int kMostBatch = test::kSanitized ? 20 : 40;
  request.vary = {"train.micro_batch=1.." + std::to_string(kMostBatch), "train.seq_len=8..256+8"};
  request.jobs = 2;
  Kept expected;
  REQUIRE(tasks::Sweep::open(request)->run(expected, [](const tasks::SweepProgress&) {}));

  request.database = scratch.path("disk/sweep.db");
  request.resume = true;
  const auto run = [&] {
    Kept rows;
    return tasks::Sweep::open(request)->run(rows, [](const tasks::SweepProgress&) {});
  };
  std::size_t before = 0;
  const std::vector<const char*> full =
      test::kSanitized ? std::vector{"size=8k", "size=100k"}
                       : std::vector{"size=8k", "size=100k", "size=200k", "size=300k"};
  for (const char* size : full) {
    CAPTURE(size);
    REQUIRE(disk.resize(size));
    const auto counts = run();
    REQUIRE_FALSE(counts.has_value());
    CHECK(counts.error().text() ==
          request.database + ": cannot be written: No space left on device");
    CHECK(counts.error().fault == Fault::work);
    // Less than its tables need leaves a file without any.
    if (!store::SweepReader::open(request.database)) {
      CHECK(before == 0);
      continue;
    }
    const auto rows = test::stored_points(request.database);
    CHECK(rows.size() >= before);
    before = rows.size();
    for (const run::SweepPoint& row : rows)
      CHECK(row == expected.points[static_cast<std::size_t>(row.index)]);
  }
  // Rows are committed each 0.2 s: a fast machine may fill the disk before.
  if (before == 0) WARN("the disk was full before the first commit: nothing to keep");
  REQUIRE(disk.resize("size=4m"));
  const auto counts = run();
  if (!counts) FAIL(counts.error().text());
  CHECK(counts->present == static_cast<std::int64_t>(before));
  CHECK(test::stored_points(request.database) == expected.points);
}
