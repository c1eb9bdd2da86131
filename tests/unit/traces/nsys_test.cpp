// Nsight Systems exports, made here by the schema of 2026 unless a case says otherwise.
#include "traces/nsys.h"

#include <filesystem>
#include <catch2/catch.hpp>

#include "core/store/sqlite.h"
#include "tests/support/scratch.h"
#include "traces/nsys_names.h"

using namespace foregather;
using traces::read_nsys;

namespace {

constexpr const char* kSchema = R"(
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL,
  deviceId INTEGER NOT NULL, contextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER,
  globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER,
  streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER,
  srcKind INTEGER, dstKind INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER, end INTEGER, deviceId INTEGER,
  streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER, memKind INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER,
  correlationId INTEGER, nameId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER, end INTEGER, deviceId INTEGER,
  streamId INTEGER, correlationId INTEGER, globalPid INTEGER, syncType INTEGER,
  eventSyncId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT (timestamp INTEGER, deviceId INTEGER,
  streamId INTEGER, correlationId INTEGER, globalPid INTEGER, eventId INTEGER,
  eventSyncId INTEGER);
CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT,
  globalTid INTEGER, textId INTEGER);
CREATE TABLE SCHED_EVENTS (start INTEGER, cpu INTEGER);
)";

// Processes 10 and 11, each with the correlation ids 1 and 2 of its own.
constexpr const char* kRows = R"(
INSERT INTO StringIds VALUES (1, 'gemm<float>'), (2, 'gemm'), (3, 'ncclDevKernel_AllGather_RING'),
  (4, 'cudaLaunchKernel_v7000'), (5, 'cuMemAlloc_v2'), (6, 'forward');
INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.25.0'), ('EXPORT_HOST', 'x');
INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H100'), (1, 'NVIDIA H100');
INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1779630014975716426);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
  (-50, 100, 0, 1, 7, 1, 10 << 24, 1, 2),
  (100, 300, 0, 1, 7, 2, 10 << 24, 3, 3),
  (100, 250, 1, 1, 15, 1, 11 << 24, 99, 2);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (300, 310, 0, 7, 3, 10 << 24, 4096, 1, 1, 2);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (310, 312, 0, 8, NULL, 10 << 24, 64, 2);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES
  (0, 5, (10 << 24) | 77, 1, 4), (6, 9, (11 << 24) | 78, 1, 5), (9, 10, (10 << 24) | 77, 5, 4);
INSERT INTO CUPTI_ACTIVITY_KIND_CUDA_EVENT VALUES (0, 0, 7, 4, 10 << 24, 1, 1234),
  (0, 0, 7, 4, 10 << 24, 1, NULL);
INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES
  (1, 2, 0, 8, 5, 10 << 24, 2, 1234), (3, 4, 0, 4294967295, 6, 10 << 24, 1, NULL);
INSERT INTO NVTX_EVENTS VALUES (0, 400, 59, 'step 1', (10 << 24) | 77, NULL),
  (0, 40, 59, NULL, (10 << 24) | 77, 6), (5, NULL, 34, 'mark', (10 << 24) | 77, NULL);
INSERT INTO SCHED_EVENTS VALUES (1, 1), (2, 2);
)";

struct Export {
  test::Scratch folder;
  std::string path = folder.path("report %20?.sqlite");

  explicit Export(const std::vector<std::string>& statements) {
    auto database = store::Database::create(path, path);
    REQUIRE(database);
    for (const std::string& sql : statements) REQUIRE(database->execute(sql.c_str()));
    REQUIRE(database->finish());
  }
};

std::int64_t sum(const run::EventCounts& counts) {
  std::int64_t sum = 0;
  for (const auto& [word, n] : counts) sum += n;
  return sum;
}

void check_accounts(const run::Recording& recording) {
  CHECK(recording.rows.read ==
        recording.rows.kept + sum(recording.rows.unused) + sum(recording.dropped));
}

std::string nsys_lane(const run::Recording& recording, run::LaneRow row) {
  const run::Lane& lane = recording.lanes.at(row.row());
  return std::string(recording.text(lane.process)) + "/" + std::string(recording.text(lane.thread));
}

}  // namespace

TEST_CASE("nsys: kernels, copies and fills are activities of device and stream") {
  const Export file({kSchema, kRows});
  const auto trace = read_nsys(file.path);
  REQUIRE(trace);
  const run::Recording& recording = trace->recording;
  const run::ActivityColumns& rows = recording.activities;
  REQUIRE(rows.size() == 5);
  CHECK(rows.start == std::vector<Ns>{-50, 100, 100, 300, 310});
  CHECK(rows.end == std::vector<Ns>{100, 300, 250, 310, 312});
  std::vector<std::string> names, lanes;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    names.emplace_back(recording.text(rows.name[i]));
    lanes.push_back(nsys_lane(recording, rows.lane[i]));
  }
  CHECK(names == std::vector<std::string>{"gemm<float>", "ncclDevKernel_AllGather_RING", "gemm",
                                          "Memcpy HtoD (Pinned -> Device)", "Memset (Device)"});
  CHECK(lanes == std::vector<std::string>{"0/7", "0/7", "1/15", "0/7", "0/8"});
  CHECK(rows.kind[3] == run::ActivityKind::memcpy);
  CHECK(rows.bytes == std::vector<Bytes>{0, 0, 0, 4096, 64});
  CHECK_FALSE(rows.correlation[4]);
  CHECK(recording.base == 1779630014975716426);
  CHECK(recording.devices == std::vector<std::string>{"NVIDIA H100", "NVIDIA H100"});
  CHECK(trace->facts.meta ==
        std::vector<std::pair<std::string, std::string>>{{"EXPORT_SCHEMA_VERSION", "3.25.0"}});
  CHECK(recording.warnings ==
        std::vector<std::string>{file.path + ": names that StringIds lacks: 1"});
}

TEST_CASE("nsys: device work and synchronisations name their process, where the export does") {
  const Export file({kSchema, kRows,
                     "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET globalPid = NULL;"
                     "UPDATE CUPTI_ACTIVITY_KIND_MEMSET SET globalPid = 1 << 48 | 10 << 24;"});
  const auto trace = read_nsys(file.path);
  REQUIRE(trace);
  const run::Recording& recording = trace->recording;
  const auto texts = [&](const std::vector<StringId>& processes) {
    std::vector<std::string> all;
    for (const StringId process : processes)
      all.emplace_back(process ? recording.text(process) : "none");
    return all;
  };
  CHECK(texts(recording.activities.process) ==
        std::vector<std::string>{"10", "10", "11", "none", "10"});
  CHECK(texts(recording.syncs.process) == std::vector<std::string>{"10", "10"});
}

TEST_CASE("nsys: a correlation id belongs to its process") {
  const Export file({kSchema, kRows});
  const auto trace = read_nsys(file.path);
  REQUIRE(trace);
  const run::Recording& recording = trace->recording;
  const auto& kernels = recording.activities.correlation;
  const auto& calls = recording.calls.correlation;
  REQUIRE(calls.size() == 3);
  CHECK(kernels[0] == calls[0]);
  CHECK(kernels[2] == calls[1]);
  CHECK(kernels[0] != kernels[2]);
  CHECK(nsys_lane(recording, recording.calls.lane[0]) == "10/77");
  CHECK(nsys_lane(recording, recording.calls.lane[1]) == "11/78");
  CHECK(recording.text(recording.calls.name[0]) == "cudaLaunchKernel");
  CHECK(recording.text(recording.calls.name[1]) == "cuMemAlloc_v2");
}

TEST_CASE("nsys: synchronisations name the call that recorded the event") {
  const Export file({kSchema, kRows});
  const auto trace = read_nsys(file.path);
  REQUIRE(trace);
  const run::Recording& recording = trace->recording;
  const run::SyncColumns& rows = recording.syncs;
  REQUIRE(rows.size() == 2);
  CHECK(recording.text(rows.name[0]) == "Stream Wait Event");
  CHECK(recording.text(rows.name[1]) == "Event Sync");
  CHECK(nsys_lane(recording, rows.lane[0]) == "0/8");
  CHECK(nsys_lane(recording, rows.lane[1]) == "0/-1");
  CHECK(rows.correlation[0] == recording.calls.correlation[2]);
  CHECK(rows.recorded[0]);
  CHECK(recording.text(rows.awaited_stream[0]) == "7");
  CHECK_FALSE(rows.recorded[1]);
  CHECK_FALSE(rows.awaited_stream[1]);
}

TEST_CASE("nsys: NVTX ranges are events with an end, by text or by its id") {
  const Export file({kSchema, kRows});
  const auto trace = read_nsys(file.path);
  REQUIRE(trace);
  const run::Recording& recording = trace->recording;
  REQUIRE(recording.ranges.size() == 2);
  CHECK(trace->facts.nvtx_ranges == 2);
  CHECK(recording.text(recording.ranges.name[0]) == "step 1");
  CHECK(recording.text(recording.ranges.name[1]) == "forward");
  CHECK(nsys_lane(recording, recording.ranges.lane[0]) == "10/77");
}

TEST_CASE("nsys: every row of a table of events is accounted for") {
  const Export file({kSchema, kRows});
  const auto trace = read_nsys(file.path);
  REQUIRE(trace);
  const run::RecordedRows& rows = trace->recording.rows;
  CHECK(rows.read == 17);
  CHECK(rows.kept == 13);
  CHECK(rows.unused == run::EventCounts{{"CUPTI_ACTIVITY_KIND_CUDA_EVENT", 1},
                                        {"NVTX_EVENTS without an end", 1},
                                        {"SCHED_EVENTS", 2}});
  CHECK(trace->recording.dropped.empty());
  check_accounts(trace->recording);
  CHECK(trace->facts.tables.at("StringIds") == 6);
  CHECK(trace->facts.tables.at("CUPTI_ACTIVITY_KIND_KERNEL") == 3);
}

TEST_CASE("nsys: rows without times, a device or a stream are dropped by reason") {
  const Export file({R"(
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, 0, 7), (NULL, 2, 0, 7), ('1', 2, 0, 7),
  (1.5, 2, 0, 7), (3, 2, 0, 7), (1, 9223372036854775807, 0, 7), (1, 2, NULL, 7),
  (1, 2, -1, 7), (1, 2, 0, 4294967296);)"});
  const auto trace = read_nsys(file.path);
  REQUIRE(trace);
  CHECK(trace->recording.activities.size() == 1);
  CHECK(trace->recording.dropped ==
        run::EventCounts{
            {"nonnumeric_ts", 3}, {"neg_dur", 1}, {"time_out_of_range", 1}, {"no_stream", 3}});
  check_accounts(trace->recording);
}

TEST_CASE("nsys: tables and columns that a version lacks are empty") {
  const Export file(
      {"CREATE TABLE CUPTI_ACTIVITY_KIND_DRIVER (start, end, nameId);"
       "INSERT INTO CUPTI_ACTIVITY_KIND_DRIVER VALUES (1, 2, 3);"
       "CREATE TABLE EXPORT_META_DATA (name TEXT, value TEXT);"
       "INSERT INTO EXPORT_META_DATA VALUES ('EXPORT_SCHEMA_VERSION', '2.9.1')"});
  const auto trace = read_nsys(file.path);
  REQUIRE(trace);
  CHECK(trace->recording.calls.size() == 1);
  CHECK(trace->facts.meta.front().second == "2.9.1");
}

TEST_CASE("nsys: views, triggers and virtual tables are not trusted") {
  const Export file({kSchema, R"(
DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL;
CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE n(i) AS
  (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS start, i AS end, 0 AS deviceId,
  0 AS streamId FROM n;
CREATE TABLE "odd "" name" ("a "" b", start INTEGER, spun AS (hex(zeroblob(100000000))));
INSERT INTO "odd "" name" VALUES (1, 2);)"});
  const auto trace = read_nsys(file.path);
  REQUIRE(trace);
  CHECK(trace->recording.activities.size() == 0);
  CHECK(trace->recording.rows.unused == run::EventCounts{{"odd \" name", 1}});
}

TEST_CASE("nsys: an index that leaves rows out changes nothing") {
  const Export file({kSchema, kRows,
                     "CREATE INDEX covering ON CUPTI_ACTIVITY_KIND_KERNEL(start, end, deviceId, "
                     "streamId, correlationId, globalPid, demangledName, shortName);"
                     "CREATE INDEX few ON SCHED_EVENTS(start) WHERE start > 1;"});
  const auto trace = read_nsys(file.path);
  REQUIRE(trace);
  CHECK(trace->recording.activities.start.front() == -50);
  CHECK(trace->facts.tables.at("SCHED_EVENTS") == 2);
}

TEST_CASE("nsys: reading leaves no file behind") {
  const Export file({kSchema, kRows});
  const auto folder = std::filesystem::path(file.path).parent_path();
  REQUIRE(read_nsys(file.path));
  CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 1);
}

TEST_CASE("nsys: what an export says that a reader should know is a warning") {
  const auto warnings = [](const std::string& more) {
    const Export file({kSchema, more});
    const auto trace = read_nsys(file.path);
    REQUIRE(trace);
    std::string all;
    for (const std::string& warning : trace->recording.warnings) {
      CHECK(warning.starts_with(file.path + ": "));
      all += warning.substr(file.path.size() + 2) + "\n";
    }
    return std::pair(all, trace->recording.base);
  };
  CHECK(warnings("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (9000000000000000000)") ==
        std::pair<std::string, Ns>(
            "utcEpochNs is 9000000000000000000, expected a time: clocks of several files are put "
            "together without it\n",
            0));
  CHECK(warnings("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (-5), ('soon')") ==
        std::pair<std::string, Ns>("", 0));
  CHECK(warnings("CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER);"
                 "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (1, 2)")
            .first ==
        "CUDA graphs were recorded as wholes, their kernels are not there: nsys profile "
        "--cuda-graph-trace=node records them\n");
}

TEST_CASE("nsys: a call without a name is a call") {
  const Export file(
      {kSchema, "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (0, 5, 77, 1, NULL)"});
  const auto trace = read_nsys(file.path);
  REQUIRE(trace);
  REQUIRE(trace->recording.calls.size() == 1);
  CHECK(trace->recording.text(trace->recording.calls.name[0]).empty());
}

TEST_CASE("nsys: what is no whole export is refused by name") {
  const Export file({kSchema, kRows});
  const auto message = [](const std::string& path) {
    const auto trace = read_nsys(path);
    REQUIRE_FALSE(trace);
    CHECK(trace.error().place == path);
    return trace.error().message;
  };
  SECTION("cut") {
    const auto size = std::filesystem::file_size(file.path);
    std::filesystem::resize_file(file.path, size - 1);
    CHECK(message(file.path) == fmt::format("is cut: it has {} of {} bytes", size - 1, size));
    std::filesystem::resize_file(file.path, 50);
    CHECK(message(file.path) == "is cut: it has 50 of 100 bytes");
  }
  SECTION("unfinished") {
    const std::string beside = file.path + "-journal";
    file.folder.write(std::filesystem::path(beside).filename().string(), "x");
    CHECK_THAT(message(file.path), Catch::StartsWith("has unfinished changes beside it"));
  }
  SECTION("another database") {
    const Export other({"CREATE TABLE t (a)"});
    CHECK_THAT(message(other.path), Catch::StartsWith("is a SQLite database without the tables"));
  }
  SECTION("no database") {
    CHECK(message(file.folder.write("text", "hello")) == "is not a SQLite database");
    CHECK_THAT(message(file.folder.path("nothing")), Catch::StartsWith("cannot be read"));
    CHECK_THAT(message(file.folder.path(".")), Catch::StartsWith("is not a regular file"));
  }
  SECTION("damaged") {
    std::fstream bytes(file.path, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(100);
    for (int i = 0; i < 4000; ++i) bytes.put('\xff');
    bytes.close();
    CHECK_THAT(message(file.path), Catch::StartsWith("is damaged"));
  }
}

TEST_CASE("nsys: pages that name one another for rows without end are stopped") {
  const Export file(
      {"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end);"
       "CREATE TABLE filler (a);"
       "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 40) "
       "INSERT INTO filler SELECT zeroblob(6000) FROM n;"});
  constexpr std::size_t kPage = 8192, kRoot = 2, kLast = 16, kCells = 200;
  std::fstream bytes(file.path, std::ios::in | std::ios::out | std::ios::binary);
  // Interior pages 2 to 15, each 201 times the parent of the next one; then one leaf with a row.
  for (std::size_t page = kRoot; page < kLast; ++page) {
    std::string content(kPage, '\0');
    const auto put = [&](std::size_t at, std::size_t value) {
      content[at] = static_cast<char>(value >> 8U);
      content[at + 1] = static_cast<char>(value & 0xffU);
    };
    content[0] = '\x05';
    put(3, kCells);
    put(5, kPage - 5 * kCells);
    put(10, page + 1);
    for (std::size_t i = 0; i < kCells; ++i) {
      const std::size_t cell = kPage - 5 * (i + 1);
      put(12 + 2 * i, cell);
      put(cell + 2, page + 1);
      content[cell + 4] = '\x01';
    }
    bytes.seekp(static_cast<std::streamoff>((page - 1) * kPage));
    bytes << content;
  }
  std::string leaf(kPage, '\0');
  leaf.replace(0, 10, std::string("\x0d\0\0\0\x01\x1f\xfb\0\x1f\xfb", 10));
  leaf.replace(kPage - 5, 5, std::string("\x03\x01\x03\x08\x09", 5));
  bytes.seekp(static_cast<std::streamoff>((kLast - 1) * kPage));
  bytes << leaf;
  bytes.close();
  const auto trace = read_nsys(file.path);
  REQUIRE_FALSE(trace);
  CHECK(trace.error().message == "is damaged: it has more rows than its size allows");
}

TEST_CASE("nsys: names of enumerations, known or not") {
  CHECK(traces::nsys_copy_name(10, 2, 2) == "Memcpy PtoP (Device -> Device)");
  CHECK(traces::nsys_copy_name(99, -1, 7) == "Memcpy Unknown (Unknown -> Unknown)");
  CHECK(traces::nsys_sync_name(4) == "Context Sync");
  CHECK(traces::nsys_sync_name(-5) == "Unknown");
  CHECK(traces::nsys_call_name("cudaLaunchKernelExC_v11060") == "cudaLaunchKernelExC");
  CHECK(traces::nsys_call_name("cuStreamSynchronize") == "cuStreamSynchronize");
  CHECK(traces::nsys_call_name("") == "");
}
