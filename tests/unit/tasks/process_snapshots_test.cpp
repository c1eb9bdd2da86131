// Snapshots that lie beside raw recordings.
#include <catch2/catch.hpp>

#include "tasks/process_snapshots.h"
#include "tests/support/scratch.h"
#include "tests/support/snapshot_pickle.h"

using namespace foregather;
using tasks::add_snapshots;
using tasks::snapshots_alone;
using tasks::snapshots_beside;

namespace {

constexpr std::int64_t kEpochUs = 1'700'000'000'000'000;

run::Recording recording() {
  run::Recording made;
  made.base = kEpochUs * kMicrosecond;
  return made;
}

struct Row {
  Ns time;
  std::uint64_t offset;
  Bytes bytes, allocated;
  friend bool operator==(const Row&, const Row&) = default;
};

std::ostream& operator<<(std::ostream& out, const Row& row) {
  return out << row.time << ": " << row.bytes << " at " << row.offset << ", " << row.allocated;
}

std::vector<Row> rows_of(const run::Recording& recording) {
  std::vector<Row> rows;
  const run::MemoryColumns& memory = recording.memory;
  for (std::size_t i = 0; i < memory.size(); ++i) {
    CHECK_FALSE(memory.lane[i]);
    CHECK(recording.text(memory.device[i]) == "1:0");
    CHECK(memory.total_reserved[i] == 2 * MiB);
    rows.push_back({memory.time[i], memory.address[i] - test::kSnapshotSegment, memory.bytes[i],
                    memory.total_allocated[i]});
  }
  return rows;
}

// 2 KiB are held all the time, behind them lie 512 bytes for a while, and then 1 KiB.
const std::vector<test::SnapshotEntry> kEvents{{"alloc", 2048, 512, kEpochUs + 10},
                                               {"alloc", 2560, 1024, kEpochUs + 20},
                                               {"free_requested", 2048, 512, kEpochUs + 30},
                                               {"free_completed", 2048, 512, kEpochUs + 30}};
const std::vector<test::SnapshotPiece> kAtEnd{{2048, true}, {512, false}, {1024, true}};

}  // namespace

TEST_CASE("a snapshot's events are rows on the recording's clock, with sizes of blocks") {
  const test::Scratch scratch;
  run::Recording into = recording();
  add_snapshots({scratch.write("a.memory.pickle", test::snapshot_pickle(kEvents, kAtEnd))}, into);
  CHECK(into.warnings == std::vector<std::string>());
  CHECK(rows_of(into) == std::vector<Row>{{10'000, 2048, 512, 2560},
                                          {20'000, 2560, 1024, 3584},
                                          {30'000, 2048, -512, 3072}});
  CHECK(into.rows.read == 4);
  CHECK(into.rows.kept == 3);
  CHECK(into.rows.unused.front().second == 1);
}

TEST_CASE("what changed between two snapshots changed half way") {
  const test::Scratch scratch;
  run::Recording into = recording();
  // The 1 KiB are gone, 3 KiB behind them have come.
  const std::string second =
      test::snapshot_pickle({{"alloc", 2048, 512, kEpochUs + 130}},
                            {{2048, true}, {512, true}, {1024, false}, {3072, true}});
  add_snapshots(
      {scratch.write("b", second), scratch.write("a", test::snapshot_pickle(kEvents, kAtEnd))},
      into);
  CHECK(rows_of(into) == std::vector<Row>{{10'000, 2048, 512, 2560},
                                          {20'000, 2560, 1024, 3584},
                                          {30'000, 2048, -512, 3072},
                                          {80'000, 2560, -1024, 2048},
                                          {80'000, 3584, 3072, 5120},
                                          {130'000, 2048, 512, 5632}});
}

TEST_CASE("a snapshot that cannot be used is a warning, and the others count") {
  const test::Scratch scratch;
  run::Recording into = recording();
  std::vector<test::SnapshotEntry> timeless = kEvents;
  for (test::SnapshotEntry& event : timeless) event.time_us = 0;
  add_snapshots(
      {scratch.write("a", "no pickle"), scratch.write("b", test::snapshot_pickle(timeless, kAtEnd)),
       scratch.write("c", test::snapshot_pickle(kEvents, kAtEnd))},
      into);
  CHECK(rows_of(into).size() == 3);
  REQUIRE(into.warnings.size() == 2);
  CHECK(into.warnings[0].find(scratch.path("a")) == 0);
  CHECK(into.warnings[1].find("have no times") != std::string::npos);
}

TEST_CASE("a snapshot belongs to the raw recording whose name it begins with") {
  const test::Scratch scratch;
  const auto recorded = scratch.write("rank1_host_12.sqlite", "");
  scratch.write("rank1_host_1.sqlite", "");
  const auto step3 = scratch.write("rank1_host_12.step3.memory.pickle", "");
  const auto step9 = scratch.write("rank1_host_12.step9.memory.pickle", "");
  scratch.write("rank1_host_12.sqlite.status", "");
  scratch.write(".77.rank1_host_12.step10.memory.pickle", "");  // its writer was killed
  scratch.write("rank1_host_123.step3.memory.pickle", "");
  CHECK(snapshots_beside(recorded) == std::vector{step3, step9});
  CHECK(snapshots_beside(scratch.path("rank1_host_1.sqlite")).empty());
  CHECK(snapshots_alone(scratch.path(".")).size() == 1);
  CHECK(snapshots_alone(scratch.path(".")).front().ends_with("rank1_host_123.step3.memory.pickle"));
}

TEST_CASE("a snapshot that contradicts itself is read by its replay, with a warning") {
  const test::Scratch scratch;
  run::Recording into = recording();
  const std::string path = scratch.write(
      "a", test::snapshot_pickle({{"alloc", 0, 512, kEpochUs + 10}, {"beam", 0, 1, kEpochUs + 20}},
                                 {{1024, true}}, test::SnapshotConf{"no_such:1"}));
  add_snapshots({path}, into);
  CHECK(into.warnings ==
        std::vector<std::string>{
            path + ": the recorded configuration 'no_such:1' is not understood: unknown allocator "
                   "option 'no_such'",
            path + ": device 0: sizes and totals are of a replay, which differs from event 2 on: "
                   "the state at the end differs, first in the block at 0x10000000000"});
  CHECK(into.memory.size() == 1);
}
