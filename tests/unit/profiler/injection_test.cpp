// The injection library in programs of its own.
#include <dlfcn.h>
#include <signal.h>
#include <sys/stat.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <thread>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "profiler/cupti_abi.h"
#include "profiler/recorder.h"
#include "profiler/settings.h"
#include "tests/support/skip.h"
#include "tests/unit/profiler/raw.h"

#if defined(FOREGATHER_INJECT) && defined(FOREGATHER_RECORDED_PROGRAM)

namespace foregather::profiler {
namespace {

using test::query;
using test::raw_files;
using test::value;
using Rows = std::vector<std::vector<std::string>>;

/// A folder for raw recordings, and a program that records into it.
struct Recording {
  Recording() { REQUIRE(::mkdir(folder.c_str(), 0700) == 0); }
  pid_t start(std::vector<std::string> arguments) {
    variables.try_emplace(kDirectoryVariable, folder);
    variables.try_emplace("NVTX_INJECTION64_PATH", FOREGATHER_INJECT);
    variables.try_emplace("CUDA_INJECTION64_PATH", FOREGATHER_INJECT);
    arguments.insert(arguments.begin(), FOREGATHER_RECORDED_PROGRAM);
    return test::start(arguments, variables, errors);
  }
  int run(std::vector<std::string> arguments) { return test::wait_for(start(arguments)); }
  std::string complaints() const {
    std::ifstream file(errors);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string only() const {
    const auto files = raw_files(folder);
    REQUIRE(files.size() == 1);
    return files.front();
  }

  test::Scratch scratch;
  std::string folder = scratch.path("raw"), errors = scratch.path("errors");
  std::map<std::string, std::string> variables;
};

// {-3, 0.5} as the program has it: an int, four bytes of zero, a double.
constexpr const char* kPointBytes = "FDFFFFFF00000000000000000000E03F";

TEST_CASE("injection: ranges of a program are rows, with texts and threads, in one finished file") {
  Recording recording;
  recording.variables["RANK"] = "3";
  recording.variables["WORLD_SIZE"] = "8";
  REQUIRE(recording.run({"ranges", "100"}) == 0);
  CHECK(recording.complaints().empty());
  const std::string raw = recording.only();
  CHECK(std::filesystem::path(raw).filename().string().starts_with("rank3_"));
  CHECK_FALSE(std::filesystem::exists(raw + "-wal"));
  CHECK_FALSE(std::filesystem::exists(raw + "-journal"));
  CHECK(value(raw, "SELECT count(*) FROM NVTX_EVENTS WHERE eventType = 59 AND end >= start") ==
        "200");
  CHECK(value(raw,
              "SELECT count(*) FROM NVTX_EVENTS o JOIN StringIds ON id = o.textId JOIN "
              "NVTX_EVENTS i ON i.start BETWEEN o.start AND o.end AND i.end <= o.end "
              "AND i.textId != o.textId WHERE value = 'step 99'") == "1");
  CHECK(query(raw, "SELECT rank, worldSize, finished, ended > 0 FROM FOREGATHER_PROCESS") ==
        Rows{{"3", "8", "1", "1"}});
  CHECK(value(raw, "SELECT count(*) FROM FOREGATHER_COUNT") == "0");
  // A pair of clocks at the beginning and at the end.
  CHECK(std::stoi(value(raw,
                        "SELECT count(*) FROM FOREGATHER_CLOCK WHERE realtime > 1000000000 * "
                        "1000000000 AND monotonic > 0")) >= 2);
  CHECK(value(raw, "PRAGMA integrity_check") == "ok");
}

TEST_CASE("injection: whatever NVTX can say is there as it was said") {
  Recording recording;
  REQUIRE(recording.run({"vocabulary"}) == 0);
  CHECK(recording.complaints().empty());
  const std::string raw = recording.only();
  const auto events = [&](const std::string& columns, const std::string& which) {
    return query(raw, "SELECT " + columns +
                          " FROM NVTX_EVENTS LEFT JOIN StringIds ON id = textId WHERE " + which);
  };
  // Domains, each made once, and what categories are called in them.
  CHECK(events("eventType, domainId, category, value", "eventType IN (33, 75) ORDER BY 1, 2") ==
        Rows{{"33", "0", "7", "loads"},
             {"33", "1", "3", "adds"},
             {"75", "1", "-", "sums"},
             {"75", "2", "-", "größe"}});
  // Ranges that were pushed: those of a domain end apart from the others'.
  CHECK(events("domainId, category, color, uint64Value, value",
               "eventType = 59 AND eventId IS NULL ORDER BY start") ==
        Rows{{"0", "-", "-", "-", "outer ä"},
             {"1", "3", "4279246896", "42", "registered"},
             {"0", "-", "-", "-", "ascii"}});
  CHECK(events("value", "eventType = 59 AND eventId IS NULL ORDER BY end") ==
        Rows{{"registered"}, {"ascii"}, {"outer ä"}});
  // Ranges that were started, and ended elsewhere but one.
  CHECK(events("domainId, int64Value, globalTid = endGlobalTid, value",
               "eventType = 60 AND eventId IS NULL ORDER BY start") ==
        Rows{{"0", "-", "0", "start"},
             {"0", "-", "1", "😀 unicode"},
             {"1", "-5", "0", "€ registered"},
             {"0", "-", "0", "w"}});
  CHECK(events("domainId, uint64Value, end, value",
               "eventType = 34 AND eventId IS NULL ORDER BY start") ==
        Rows{{"0", "-", "-", "ascii"}, {"0", "-", "-", "mark ü"}, {"1", "42", "-", "registered"}});
  CHECK(query(raw, "SELECT value FROM ThreadNames JOIN StringIds ON id = nameId") ==
        Rows{{"first"}});
  // Payloads of a range that was pushed, a mark, a range that was started, and an attribute.
  CHECK(query(raw,
              "SELECT domainId, name, type, numEntries, payloadSize FROM "
              "NVTX_PAYLOAD_SCHEMAS") == Rows{{"1", "point", "1", "2", "16"}});
  CHECK(query(raw,
              "SELECT idx, type, name, description, offset FROM "
              "NVTX_PAYLOAD_SCHEMA_ENTRIES ORDER BY idx") ==
        Rows{{"0", "15", "x", "to the right", "0"}, {"1", "20", "y", "", "8"}});
  CHECK(query(raw,
              "SELECT eventType, e.domainId, hex(payload) FROM FOREGATHER_NVTX_PAYLOAD p "
              "JOIN NVTX_EVENTS e USING (eventId) JOIN NVTX_PAYLOAD_SCHEMAS s USING "
              "(schemaId) ORDER BY start") == Rows{{"59", "1", kPointBytes},
                                                   {"34", "1", kPointBytes},
                                                   {"60", "1", kPointBytes},
                                                   {"34", "0", kPointBytes}});
}

TEST_CASE("injection: each process of a program has a file, each thread its ranges") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  FOREGATHER_SKIP("sanitizers do not survive a fork among threads");
#endif
  Recording recording;
  REQUIRE(recording.run({"fork", "4", "25"}) == 0);
  std::set<std::string> pids;
  const auto files = raw_files(recording.folder);
  for (const std::string& raw : files) {
    if (value(raw, "SELECT count(*) FROM NVTX_EVENTS") == "0") continue;  // the parent
    CHECK(value(raw, "SELECT count(*) FROM NVTX_EVENTS") == "50");
    pids.insert(value(raw, "SELECT pid FROM FOREGATHER_PROCESS"));
    CHECK(value(raw,
                "SELECT count(*) FROM NVTX_EVENTS, FOREGATHER_PROCESS WHERE globalTid >> 24 = "
                "pid") == "50");
  }
  CHECK(pids.size() == 4);
  Recording threads;
  REQUIRE(threads.run({"threads", "8", "100"}) == 0);
  CHECK(query(threads.only(), "SELECT count(DISTINCT globalTid), count(*) FROM NVTX_EVENTS") ==
        Rows{{"8", "1600"}});
}

TEST_CASE("injection: a rate that no disk takes is dropped, counted, and bounded in memory") {
  Recording recording;
  REQUIRE(recording.run({"threads", "4", "400000"}) == 0);
  const std::string raw = recording.only();
  const std::int64_t rows = std::stoll(value(raw, "SELECT count(*) FROM NVTX_EVENTS"));
  const std::int64_t dropped =
      std::stoll(value(raw, "SELECT total(records) FROM FOREGATHER_COUNT"));
  CHECK(rows + dropped == 4 * 400000 * 2);
  CHECK(rows > 100000);
  CHECK(value(raw, "PRAGMA integrity_check") == "ok");
}

// FOREGATHER_KILLS says how often (20).
TEST_CASE("injection: a killed process leaves all but the last flush interval") {
  const char* const asked = std::getenv("FOREGATHER_KILLS");
  const int kills = asked == nullptr ? 20 : std::atoi(asked);
  // Two processors, many tests; a writer under a sanitizer takes ten times as long.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr std::int64_t kScheduling = 4'000'000'000;
#else
  constexpr std::int64_t kScheduling = 400'000'000;
#endif
  std::mt19937 random(8);
  for (int i = 0; i < kills; ++i) {
    Recording recording;
    const pid_t pid = recording.start({"forever"});
    // The rarer late ones come after flushes of the running file.
    const int most = i % 5 == 0 ? 2500 : 300;
    std::this_thread::sleep_for(
        std::chrono::milliseconds(30 + static_cast<int>(random() % static_cast<unsigned>(most))));
    timespec killed{};
    ::clock_gettime(CLOCK_REALTIME, &killed);
    REQUIRE(::kill(pid, SIGKILL) == 0);
    REQUIRE(test::wait_for(pid) == 128 + SIGKILL);
    for (const std::string& raw : raw_files(recording.folder)) {
      REQUIRE(recover(raw) == "");
      CHECK_FALSE(std::filesystem::exists(raw + "-wal"));
      CHECK(value(raw, "PRAGMA integrity_check") == "ok");
      if (value(raw, "SELECT count(*) FROM sqlite_master WHERE name = 'NVTX_EVENTS'") == "0")
        continue;  // killed before the file had tables
      const std::string begin =
          value(raw, "SELECT coalesce(max(utcEpochNs), 0) FROM TARGET_INFO_SESSION_START_TIME");
      const std::int64_t age = (killed.tv_sec * 1'000'000'000 + killed.tv_nsec) - std::stoll(begin);
      const std::int64_t last =
          std::stoll(value(raw, "SELECT coalesce(max(end), 0) FROM NVTX_EVENTS"));
      CHECK(age - last < Recorder::kFlushInterval + kScheduling);
    }
  }
}

TEST_CASE("injection: a time of day that is set back delays no flush") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  FOREGATHER_SKIP("the library of a sanitizer must come first");
#endif
  Recording recording;
  recording.variables["LD_PRELOAD"] = FOREGATHER_JUMPING_CLOCK;
  const pid_t pid = recording.start({"forever"});
  std::this_thread::sleep_for(std::chrono::milliseconds(4500));
  REQUIRE(::kill(pid, SIGKILL) == 0);
  REQUIRE(test::wait_for(pid) == 128 + SIGKILL);
  const std::string raw = recording.only();
  REQUIRE(recover(raw) == "");
  CHECK(value(raw,
              "SELECT max(realtime) - min(realtime) > 3600 * 1000000000 FROM "
              "FOREGATHER_CLOCK") == "1");
  CHECK(value(raw,
              "SELECT max(monotonic) - min(monotonic) > 2 * 1000000000 FROM "
              "FOREGATHER_CLOCK") == "1");
}

TEST_CASE("injection: windows by time, by range and by step") {
  const auto texts = [](const std::string& raw) {
    return value(raw,
                 "SELECT group_concat(value, ' ') FROM (SELECT value FROM NVTX_EVENTS JOIN "
                 "StringIds ON id = textId ORDER BY start, end DESC)");
  };
  Recording by_step;
  by_step.variables[kStepsVariable] = "1..2";
  REQUIRE(by_step.run({"steps", "4"}) == 0);
  CHECK(texts(by_step.only()) == "ProfilerStep#1 inside ProfilerStep#2 inside");
  CHECK(query(by_step.only(), "SELECT * FROM FOREGATHER_COUNT") == Rows{{"outside_window", "8"}});
  Recording by_range;
  by_range.variables[kRangeVariable] = "ProfilerStep#3";
  REQUIRE(by_range.run({"steps", "4"}) == 0);
  CHECK(texts(by_range.only()) == "ProfilerStep#3 inside");
  Recording late;
  late.variables[kDelayVariable] = "3600000000000";
  REQUIRE(late.run({"ranges", "4"}) == 0);
  CHECK(value(late.only(), "SELECT count(*) FROM NVTX_EVENTS") == "0");
}

TEST_CASE("injection: a recording ends at its size limit") {
  Recording recording;
  recording.variables[kBytesVariable] = "1000000";
  const pid_t pid = recording.start({"forever"});
  std::this_thread::sleep_for(std::chrono::milliseconds(1300));
  ::kill(pid, SIGKILL);
  test::wait_for(pid);
  CHECK(recording.complaints().empty());  // 1 ms ranges do not fill a megabyte in a second
  Recording full;
  full.variables[kBytesVariable] = "100000";
  const pid_t other = full.start({"forever"});
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  ::kill(other, SIGKILL);
  test::wait_for(other);
  CHECK(full.complaints().find("has reached its size limit") != std::string::npos);
}

TEST_CASE("injection: a folder that others can write, that is a link or missing is refused") {
  Recording open;
  REQUIRE(::chmod(open.folder.c_str(), 0777) == 0);
  REQUIRE(open.run({"exit", "7"}) == 7);
  CHECK(raw_files(open.folder).empty());
  CHECK(open.complaints() ==
        "foregather: this process is not recorded: " + open.folder + " can be written by others\n");
  Recording link;
  const std::string name = link.scratch.path("link");
  REQUIRE(::symlink(link.folder.c_str(), name.c_str()) == 0);
  link.variables[kDirectoryVariable] = name;
  REQUIRE(link.run({"exit", "0"}) == 0);
  CHECK(link.complaints().find("is no directory") != std::string::npos);
  Recording missing;
  missing.variables[kDirectoryVariable] = missing.scratch.path("none");
  REQUIRE(missing.run({"exit", "3"}) == 3);
  CHECK(missing.complaints().find("No such file or directory") != std::string::npos);
}

TEST_CASE("injection: without a driver the program runs, and the recording says what it lacks") {
  Recording recording;
  recording.variables["LD_LIBRARY_PATH"] = FOREGATHER_CUPTI_FOLDER;  // the real CUPTI
  REQUIRE(recording.run({"device", "5"}) == 0);
  CHECK(recording.complaints().find("no device work is recorded") != std::string::npos);
  CHECK(value(recording.only(), "SELECT count(*) FROM NVTX_EVENTS") == "10");
  CHECK(value(recording.only(), "SELECT count(*) FROM DIAGNOSTIC_EVENT") == "1");
}

TEST_CASE("injection: what CUPTI reports from its threads is in the file") {
  Recording recording;
  recording.variables["LD_LIBRARY_PATH"] = FOREGATHER_FAKE_CUPTI;
  REQUIRE(recording.run({"device", "20000"}) == 0);
  CHECK(recording.complaints().empty());
  const std::string raw = recording.only();
  CHECK(query(raw,
              "SELECT count(*), count(DISTINCT correlationId) FROM "
              "CUPTI_ACTIVITY_KIND_KERNEL") == Rows{{"40000", "40000"}});
  CHECK(value(raw,
              "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN "
              "CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId) WHERE r.start < k.start "
              "AND k.globalPid = r.globalTid & ~0xffffff") == "40000");
  CHECK(value(raw, "SELECT count(*) FROM FOREGATHER_COUNT") == "0");
  CHECK(value(raw,
              "SELECT count(*) > 0 FROM FOREGATHER_CLOCK WHERE abs(cupti - realtime) < "
              "1000000000") == "1");
}

// What happened to Kineto (pytorch/kineto 95, 686, 1105, 1347, 1362), where it can happen here.

TEST_CASE("injection: buffers that CUPTI keeps until a forced flush are in the file") {
  Recording recording;
  recording.variables["LD_LIBRARY_PATH"] = FOREGATHER_FAKE_CUPTI;
  recording.variables["FAKE_CUPTI_HOLDS"] = "1";
  REQUIRE(recording.run({"device", "100"}) == 0);
  CHECK(value(recording.only(), "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL") == "200");
}

TEST_CASE("injection: threads that report until the process is gone do no harm") {
  Recording recording;
  recording.variables["LD_LIBRARY_PATH"] = FOREGATHER_FAKE_CUPTI;
  recording.variables["FAKE_CUPTI_GOES_ON"] = "1";
  for (int i = 0; i < 5; ++i) REQUIRE(recording.run({"device", "100", "20"}) == 0);
  for (const std::string& raw : raw_files(recording.folder)) {
    CHECK(value(raw, "SELECT finished FROM FOREGATHER_PROCESS") == "1");
    CHECK(value(raw, "PRAGMA integrity_check") == "ok");
    CHECK(std::stoll(value(raw, "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL")) >= 200);
  }
}

TEST_CASE("injection: work that begins in the window counts, if it ends soon after it") {
  Recording recording;
  recording.variables["LD_LIBRARY_PATH"] = FOREGATHER_FAKE_CUPTI;
  recording.variables["FAKE_CUPTI_LATE"] = "1500";
  recording.variables[kDurationVariable] = "900000000";
  REQUIRE(recording.run({"device", "100", "2600"}) == 0);
  CHECK(value(recording.only(), "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL") == "200");
}

TEST_CASE("injection: device work that comes too fast is dropped, counted, and bounded") {
  for (const char* const version : {"26", "27"}) {  // before and since CUPTI takes no buffer
    INFO(version);
    Recording recording;
    recording.variables["LD_LIBRARY_PATH"] = FOREGATHER_FAKE_CUPTI;
    recording.variables["FAKE_CUPTI_VERSION"] = version;
    REQUIRE(recording.run({"device", "400000"}) == 0);
    const std::string raw = recording.only();
    std::int64_t rows = 0;
    for (const char* const table : {"KERNEL", "RUNTIME"})
      rows +=
          std::stoll(value(raw, std::string("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_") + table));
    CHECK(rows + std::stoll(value(raw,
                                  "SELECT total(records) FROM FOREGATHER_COUNT WHERE reason IN "
                                  "('too_fast_for_the_writer', 'dropped_by_cupti')")) ==
          4 * 400000);
    CHECK(value(raw, "PRAGMA integrity_check") == "ok");
  }
}

TEST_CASE("injection: where another profiler is attached, NVTX is recorded and the reason said") {
  Recording recording;
  recording.variables["LD_LIBRARY_PATH"] = FOREGATHER_FAKE_CUPTI;
  recording.variables["FAKE_CUPTI_BUSY"] = "1";
  REQUIRE(recording.run({"device", "5"}) == 0);
  CHECK(recording.complaints().find("another profiler is attached to CUPTI") != std::string::npos);
  CHECK(value(recording.only(), "SELECT count(*) FROM NVTX_EVENTS") == "10");
}

TEST_CASE("injection: kinds that CUPTI refuses are said, kernels that it refuses end it") {
  Recording recording;
  recording.variables["LD_LIBRARY_PATH"] = FOREGATHER_FAKE_CUPTI;
  recording.variables["FAKE_CUPTI_REFUSES"] = std::to_string(cupti::kContext);
  REQUIRE(recording.run({"device", "5"}) == 0);
  CHECK(recording.complaints().find(fmt::format(
            "records of kind {} are left out: CUPTI_ERROR_OF_THE_TEST", cupti::kContext)) !=
        std::string::npos);
  CHECK(value(recording.only(), "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL") == "10");
  Recording without;
  without.variables["LD_LIBRARY_PATH"] = FOREGATHER_FAKE_CUPTI;
  without.variables["FAKE_CUPTI_REFUSES"] = std::to_string(cupti::kConcurrentKernel);
  REQUIRE(without.run({"device", "5"}) == 0);
  CHECK(without.complaints().find(
            "no device work is recorded: cuptiActivityEnable failed with CUPTI_ERROR_OF_THE_TEST "
            "(is there a driver? may this user read performance counters?)") != std::string::npos);
  CHECK(value(without.only(), "SELECT count(*) FROM NVTX_EVENTS") == "10");
}

TEST_CASE("injection: calls that launch nothing are switched off, and no others") {
  Recording recording;
  recording.variables["LD_LIBRARY_PATH"] = FOREGATHER_FAKE_CUPTI;
  recording.variables["FAKE_CUPTI_NOISE"] = "1";
  REQUIRE(recording.run({"device", "50"}) == 0);
  CHECK(query(recording.only(),
              "SELECT value, count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME JOIN StringIds ON id = "
              "nameId GROUP BY 1 ORDER BY 1") ==
        Rows{{"cudaGetDeviceCount_v3020", "100"}, {"cudaLaunchKernel_v7000", "100"}});
}

TEST_CASE("injection: ranges beyond what is kept, and ends without a begin, are counted") {
  Recording recording;
  REQUIRE(recording.run({"excess"}) == 0);
  const std::string raw = recording.only();
  CHECK(query(raw,
              "SELECT * FROM FOREGATHER_COUNT WHERE reason LIKE 'nvtx_pop%' OR reason LIKE "
              "'nvtx_ranges_too%' ORDER BY reason") == Rows{{"nvtx_pop_without_push", "2"},
                                                            {"nvtx_ranges_too_deep", "904"},
                                                            {"nvtx_ranges_too_many", "4"}});
  CHECK(query(raw,
              "SELECT value, count(*) FROM NVTX_EVENTS JOIN StringIds ON id = textId WHERE "
              "eventType = 59 GROUP BY 1 ORDER BY 1") == Rows{{"after", "1"}, {"deep", "4096"}});
  CHECK(query(raw,
              "SELECT value, uint64Value, int64Value FROM NVTX_EVENTS JOIN StringIds ON id = "
              "textId WHERE eventType = 34 ORDER BY start") ==
        Rows{{"unsigned", "4000000000", "-"}, {"signed", "-", "-5000000000"}});
}

TEST_CASE("injection: a CUPTI before CUDA 12.0 is refused by name") {
  Recording recording;
  recording.variables["LD_LIBRARY_PATH"] = FOREGATHER_FAKE_CUPTI;
  recording.variables["FAKE_CUPTI_VERSION"] = "18";
  REQUIRE(recording.run({"device", "5"}) == 0);
  CHECK(recording.complaints().find("libcupti.so.13 is older than CUDA 12.0") != std::string::npos);
}

TEST_CASE("injection: it shows its entries and needs nothing but the C library") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  FOREGATHER_SKIP("sanitizers bring libraries of their own");
#endif
  const auto lines = [](const std::string& command) {
    std::set<std::string> out;
    std::FILE* const pipe = ::popen(command.c_str(), "r");
    std::array<char, 512> line{};
    while (std::fgets(line.data(), line.size(), pipe) != nullptr)
      out.emplace(line.data(), std::string_view(line.data()).find('\n'));
    ::pclose(pipe);
    return out;
  };
  CHECK(lines("nm -D --defined-only " FOREGATHER_INJECT " | cut -d' ' -f3") ==
        std::set<std::string>{"InitializeInjection", "InitializeInjectionNvtx2",
                              "InitializeInjectionNvtxExtension", "ncclProfiler_v4",
                              "ncclProfiler_v5"});
  for (const std::string& needed :
       lines("readelf -d " FOREGATHER_INJECT " | sed -n 's/.*NEEDED.*\\[\\(.*\\)\\].*/\\1/p'")) {
    INFO(needed);
    CHECK((needed.starts_with("libc.so") || needed.starts_with("libm.so") ||
           needed.starts_with("libpthread.so") || needed.starts_with("libdl.so") ||
           needed.starts_with("ld-linux")));
  }
}

}  // namespace
}  // namespace foregather::profiler

#endif
