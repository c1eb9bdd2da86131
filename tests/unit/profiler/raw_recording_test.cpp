// What import makes of raw recordings.
#include "traces/raw_recording.h"

#include <catch2/catch.hpp>

#include "core/rebuild/processes.h"
#include "tests/unit/profiler/raw.h"

namespace foregather {
namespace {

using profiler::Cell;
using profiler::RawTable;

/// A raw recording of a process: a launch within NCCL's, one beside it, and a range.
struct Job {
  explicit Job(std::int64_t pid, std::optional<std::int64_t> rank, bool has_work = true,
               const char* collective = "AllGather", const char* dtype = "ncclBfloat16") {
    profiler::RawFile& file = *raw.file;
    file.run(
        "INSERT INTO FOREGATHER_PROCESS VALUES (?, 1, ?, NULL, 2, 'node', 'train', 0, 9000, 1)",
        pid, rank);
    const std::int64_t tid = pid << 24U | pid;
    if (has_work) {
      for (const std::int64_t i : {0, 1}) {
        file.add(RawTable::runtime, {100 + i * 1000, 200 + i * 1000, 0, tid, i + 1,
                                     file.text("cudaLaunchKernelExC_v11060"), 0});
        file.add(RawTable::kernel, {300 + i * 1000,
                                    900 + i * 1000,
                                    0,
                                    1,
                                    7,
                                    i + 1,
                                    pid << 24U,
                                    file.text("k"),
                                    file.text("k"),
                                    Cell(),
                                    1,
                                    32,
                                    1,
                                    1,
                                    1,
                                    32,
                                    1,
                                    1,
                                    0,
                                    0,
                                    0,
                                    0,
                                    0});
      }
      const auto name = [&](std::int64_t id, const char* text) {
        file.run("INSERT INTO StringIds VALUES (?, ?)", id, std::string_view(text));
        return id;
      };
      const auto gather = name(-1, collective), half = name(-2, dtype);
      file.add(RawTable::nccl_communicator, {0xabc, Cell(), 1, 2, rank});
      file.add(RawTable::nccl_call, {10, Cell(), 256, 50, 250, tid});
      file.add(RawTable::nccl_call, {11, 10, 512, 60, 70, tid});
      file.add(RawTable::nccl_call, {12, 10, 2048, 90, 210, tid});
      file.add(RawTable::nccl_collective,
               {20, 11, 75, 85, tid, 0xabc, 4, gather, 1000, half, 0, Cell(), Cell(), 2, 16});
    }
    file.add(RawTable::nvtx, {5, 8000, 59, Cell(), Cell(), Cell(), tid, Cell(), file.text("step")});
    file.count("too_fast", 3);
    file.leave_out(4);
    file.add(RawTable::clock, {1'000'000'000, 500, Cell()});
    file.add(RawTable::clock, {3'000'000'000, 1'000'000'500, Cell()});  // set by a second
    REQUIRE(file.finish());
  }
  std::shared_ptr<const run::Recording> read() const {
    auto trace = traces::read_nsys(raw.path);
    if (!trace) FAIL(trace.error().text());
    return std::make_shared<const run::Recording>(std::move(trace->recording));
  }
  test::RawScratch raw;
};

TEST_CASE("raw recording: the process, what it lost, and the collectives of its kernels") {
  const Job job(42, 1);
  const auto recording = job.read();
  CHECK(recording->rank == 1);
  CHECK(recording->world_size == 2);
  CHECK(recording->host == "node");
  CHECK(recording->dropped == run::EventCounts{{"too_fast", 3}});
  CHECK(recording->rows.unused == run::EventCounts{{"outside_window", 4}});
  CHECK(recording->rows.read == recording->rows.kept + 3 + 4);
  REQUIRE(recording->warnings.size() == 1);
  CHECK(recording->warnings.front().find("clock was set by 1.000 s") != std::string::npos);
  REQUIRE(recording->activities.size() == 2);
  REQUIRE(recording->activities.collective[0]);
  CHECK_FALSE(recording->activities.collective[1]);  // launched outside NCCL's launch
  const run::RecordedCollective& said = recording->collectives.front();
  CHECK(recording->text(said.name) == "_allgather_base");
  CHECK(recording->text(said.dtype) == "BFloat16");
  CHECK(recording->text(said.group) == "abc");
  CHECK(said.group_size == 2);
  CHECK(said.sequence == 4);
  CHECK(said.in_elements == 1000);
  CHECK(said.out_elements == 2000);
  CHECK(recording->text(recording->ranges.name.back()) == "process train");
}

TEST_CASE("raw recording: collectives have the names and the sizes that PyTorch gives them") {
  struct Case {
    const char *nccl, *dtype, *name, *torch;
    std::int64_t in, out;
  };
  for (const Case& each :
       {Case{"ReduceScatter", "ncclFloat32", "_reduce_scatter_base", "Float", 2000, 1000},
        Case{"AllReduce", "ncclHalf", "allreduce", "Half", 1000, 1000},
        Case{"Broadcast", "ncclUint8", "broadcast", "Uint8", 1000, 1000}}) {
    INFO(each.nccl);
    const auto recording = Job(42, 1, true, each.nccl, each.dtype).read();
    REQUIRE(recording->collectives.size() == 1);
    const run::RecordedCollective& said = recording->collectives.front();
    CHECK(recording->text(said.name) == each.name);
    CHECK(recording->text(said.dtype) == each.torch);
    CHECK(said.in_elements == each.in);
    CHECK(said.out_elements == each.out);
  }
}

TEST_CASE("raw recording: processes of a rank are one, and a launcher goes to the lowest rank") {
  const Job first(42, 0), helper(43, 0, false), second(44, 1), launcher(45, std::nullopt, false);
  const std::vector<std::shared_ptr<const run::Recording>> processes{launcher.read(), helper.read(),
                                                                     first.read(), second.read()};
  const auto ranks = rebuild::one_a_rank(processes);
  REQUIRE(ranks.size() == 2);
  CHECK(ranks[0]->rank == 0);
  CHECK(ranks[0]->activities.size() == 2);
  CHECK(ranks[0]->ranges.size() == 6);  // a step and a process each
  CHECK(ranks[0]->dropped == run::EventCounts{{"too_fast", 9}});
  CHECK(ranks[0]->source == first.raw.path);
  CHECK(ranks[1]->rank == 1);
  CHECK(ranks[1]->ranges.size() == 2);
}

TEST_CASE("raw recording: processes of a host without ranks are one, correlations apart") {
  const Job first(42, std::nullopt), second(43, std::nullopt);
  const std::vector<std::shared_ptr<const run::Recording>> processes{first.read(), second.read()};
  const auto joined = rebuild::one_a_rank(processes);
  REQUIRE(joined.size() == 1);
  const run::ActivityColumns& rows = joined[0]->activities;
  REQUIRE(rows.size() == 4);
  CHECK(joined[0]->correlations == processes[0]->correlations + processes[1]->correlations);
  CHECK(rows.correlation[0] != rows.correlation[2]);
  CHECK(rows.lane[0] == rows.lane[2]);  // one device, one stream
  REQUIRE(rows.collective[2]);
  CHECK(joined[0]->text(joined[0]->collectives[rows.collective[2].row()].group) == "abc");
}

}  // namespace
}  // namespace foregather
