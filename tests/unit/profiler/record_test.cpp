// `foregather record`, from the command line to the run.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <thread>

#include <catch2/catch.hpp>

#include "profiler/settings.h"
#include "tests/support/example_run.h"
#include "tests/support/places.h"
#include "tests/support/skip.h"
#include "tests/support/snapshot_pickle.h"
#include "tests/support/written_run.h"
#include "tests/unit/profiler/raw.h"

#if defined(FOREGATHER_INJECT) && defined(FOREGATHER_RECORDED_PROGRAM)

namespace foregather {
namespace {

using test::query;
using test::value;
using Rows = std::vector<std::vector<std::string>>;

/// `foregather` in a folder of its own.
struct Foregather {
  pid_t start(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), test::program_path());
    return test::start(arguments, variables, scratch.path("errors"));
  }
  int run(const std::vector<std::string>& arguments) { return test::wait_for(start(arguments)); }
  int record(std::vector<std::string> options, const std::vector<std::string>& command) {
    options.insert(options.begin(), {"record", "-o", database});
    options.emplace_back("--");
    options.insert(options.end(), command.begin(), command.end());
    return run(options);
  }
  std::string errors() const {
    std::ifstream file(scratch.path("errors"));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  bool has(const std::string& path) const { return std::filesystem::exists(path); }

  test::Scratch scratch;
  std::string database = scratch.path("run.db"), raw = database + ".raw";
  std::map<std::string, std::string> variables;
};

constexpr const char* kProgram = FOREGATHER_RECORDED_PROGRAM;

TEST_CASE("record: processes and ranges of a host are a run without ops") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  FOREGATHER_SKIP("sanitizers do not survive a fork among threads");
#endif
  Foregather foregather;
  REQUIRE(foregather.record({"--host-only"}, {kProgram, "fork", "3", "10"}) == 0);
  CHECK_FALSE(foregather.has(foregather.raw));
  CHECK(value(foregather.database, "SELECT kind FROM run") == "1");
  CHECK(value(foregather.database, "SELECT count(*) FROM op") == "0");
  CHECK(value(foregather.database,
              "SELECT count(*) FROM call JOIN string ON string.id = call.name "
              "WHERE text = 'work'") == "30");
  CHECK(value(foregather.database,
              "SELECT count(*) FROM call JOIN string ON string.id = call.name "
              "WHERE text LIKE 'process %'") == "4");
  CHECK(foregather.run({"export", foregather.database, "--format", "chrome", "-o",
                        foregather.scratch.path("trace.json")}) == 0);
}

TEST_CASE("record: a command that loads nothing is a process") {
  Foregather foregather;
  REQUIRE(foregather.record({"--host-only"}, {"sleep", "0.1"}) == 0);
  CHECK(value(foregather.database, "SELECT text FROM call JOIN string ON string.id = call.name") ==
        "process sleep 0.1");
}

TEST_CASE("record: the exit code and the signals are the command's") {
  Foregather foregather;
  CHECK(foregather.record({"--host-only"}, {kProgram, "exit", "7"}) == 7);
  CHECK(foregather.has(foregather.database));
  const pid_t pid = foregather.start(
      {"record", "--host-only", "-o", foregather.database, "--", kProgram, "forever"});
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  REQUIRE(::kill(pid, SIGTERM) == 0);
  CHECK(test::wait_for(pid) == 128 + SIGTERM);  // as a shell tells it
  CHECK(foregather.errors().find("its process was killed") != std::string::npos);
  CHECK(std::stoi(value(foregather.database, "SELECT count(*) FROM call")) > 100);
}

TEST_CASE("record: what ends a program ends the command, and makes a run") {
  for (const int signal : {SIGHUP, SIGQUIT, SIGXCPU}) {
    INFO(::strsignal(signal));
    Foregather foregather;
    const pid_t pid = foregather.start(
        {"record", "--host-only", "-o", foregather.database, "--", kProgram, "forever"});
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    REQUIRE(::kill(pid, signal) == 0);
    CHECK(test::wait_for(pid) == 128 + signal);
    CHECK(std::stoi(value(foregather.database, "SELECT count(*) FROM call")) > 0);
  }
}

TEST_CASE("record: what was killed is imported from its raw recordings") {
  Foregather foregather;
  const pid_t pid = foregather.start(
      {"record", "--host-only", "-o", foregather.database, "--", kProgram, "forever"});
  std::this_thread::sleep_for(std::chrono::milliseconds(1700));
  REQUIRE(::kill(pid, SIGKILL) == 0);
  test::wait_for(pid);
  const auto files = test::raw_files(foregather.raw);
  REQUIRE(files.size() == 1);
  const std::size_t at = files.front().rfind('_') + 1;
  REQUIRE(::kill(std::stoi(files.front().substr(at)), SIGKILL) == 0);  // the command itself
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK(foregather.record({"--host-only"}, {"true"}) == 2);
  CHECK(foregather.errors().find("is of an earlier recording") != std::string::npos);
  REQUIRE(foregather.run({"import", files.front(), "-o", foregather.database}) == 0);
  CHECK(std::stoi(value(foregather.database, "SELECT count(*) FROM call")) > 100);
}

TEST_CASE("record: processes that are killed at any moment do not keep the others from a run") {
  Foregather foregather;
  // Orphans that nobody waits for, some of them killed before their files have tables.
  const std::string program = kProgram;
  const std::string script = "for i in 0 1 2 3 4 5 6 7 8 9; do (" + program +
                             " forever & sleep 0.00$i; kill -9 $!); done; (" + program +
                             " forever & sleep 1.3; kill -9 $!); exec " + program + " ranges 5";
  REQUIRE(foregather.record({"--host-only"}, {"sh", "-c", script}) == 0);
  INFO(foregather.errors());
  CHECK(foregather.errors().find("still running") == std::string::npos);
  CHECK_FALSE(foregather.has(foregather.raw));
  CHECK(value(foregather.database,
              "SELECT count(*) FROM call JOIN string ON string.id = call.name "
              "WHERE text = 'step 4'") == "1");
  CHECK(std::stoi(value(foregather.database,
                        "SELECT count(*) FROM call JOIN string ON string.id = call.name "
                        "WHERE text = 'work'")) > 105);
}

TEST_CASE("record: where nothing can be written the recordings stay, and what to do is said") {
  Foregather foregather;
  // In a place that goes away: the raw recordings can be written, the run cannot.
  const std::string folder = foregather.scratch.path("folder");
  REQUIRE(::mkdir(folder.c_str(), 0700) == 0);
  foregather.database = folder + "/run.db";
  const std::string raw = foregather.database + ".raw";
  CHECK(foregather.record(
            {"--host-only"},
            {"sh", "-c", std::string(kProgram) + " ranges 3; mkdir " + foregather.database}) == 1);
  INFO(foregather.errors());
  CHECK(foregather.errors().find("'foregather import " + raw +
                                 "/*.sqlite -o RUN.db' makes the run") != std::string::npos);
  REQUIRE(test::raw_files(raw).size() == 2);  // of the shell, too
  CHECK(foregather.run({"import", test::raw_files(raw)[0], test::raw_files(raw)[1], "-o",
                        foregather.scratch.path("run.db")}) == 0);
}

TEST_CASE("record: bad usage is told before anything runs") {
  Foregather foregather;
  const std::string trace = foregather.scratch.path("ran");
  const std::vector<std::string> touch{"touch", trace};
  for (const auto& [options, words] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--kinds", "kernels"}, "there is no kind 'kernels'"},
           {{"--delay", "soon"}, "is no number of seconds"},
           {{"--duration", "-1"}, "is no number of seconds"},
           {{"--steps", "5..3"}, "expected the first and the last step"},
           {{"--steps", "1..2", "--range", "x"}, "both say when to record"},
           {{"--max-size", "much"}, "is no size"}}) {
    CHECK(foregather.record(options, touch) == 2);
    INFO(foregather.errors());
    CHECK(foregather.errors().find(words) != std::string::npos);
  }
  test::written(foregather.database, test::example_run());
  const auto record_unnamed = [&] {
    const std::string command =
        "cd \"$(dirname \"$1\")\" && exec \"$0\" record --host-only -- true";
    return test::wait_for(
        test::start({"sh", "-c", command, test::program_path(), foregather.database}, {},
                    foregather.scratch.path("errors")));
  };
  CHECK(record_unnamed() == 2);
  CHECK(foregather.errors().find("run.db: is there, and is no recording") != std::string::npos);
  CHECK(foregather.record({"--host-only"}, {"true"}) == 0);  // over a prediction, as it is named
  CHECK(record_unnamed() == 0);                              // over a recording without device work
  foregather.scratch.write("run.db", "notes");
  CHECK(record_unnamed() == 2);
  // Its name was given by mistake.
  CHECK(foregather.record({"--host-only"}, {"cat", foregather.database}) == 2);
  CHECK(foregather.errors().find("is part of the command") != std::string::npos);
  run::Run measured = test::example_run();
  measured.about.kind = run::RunKind::measured;
  test::written(foregather.database, measured);
  CHECK(foregather.record({"--host-only"}, touch) == 2);
  CHECK(foregather.errors().find("holds a measured run") != std::string::npos);
  std::filesystem::remove(foregather.database);
  CHECK(foregather.record({}, {""}) == 2);
  CHECK(foregather.errors().find("COMMAND is empty") != std::string::npos);
  CHECK(foregather.run({"record", "-o", foregather.database}) == 2);
  CHECK(foregather.errors().find("COMMAND is missing") != std::string::npos);
  CHECK(foregather.record({}, {"./no-such-command"}) == 2);
  CHECK(foregather.errors().find("./no-such-command: cannot be run: No such file or directory") !=
        std::string::npos);
  CHECK_FALSE(foregather.has(foregather.raw));
  CHECK(foregather.run({"record", "-o", "/no/such/folder/run.db", "--", "touch", trace}) == 2);
  CHECK_FALSE(foregather.has(trace));
}

TEST_CASE("record: --max-size takes bytes and any unit") {
  for (const char* size : {"500MB", "100000000", "1GB", "1TiB"}) {
    Foregather foregather;
    CHECK(foregather.record({"--host-only", "--max-size", size}, {"true"}) == 0);
    INFO(foregather.errors());
  }
}

TEST_CASE("record: what is asked for is told to the command's processes") {
  Foregather foregather;
  const std::string said = foregather.scratch.path("said");
  const auto variables_of = [&](std::vector<std::string> options) {
    std::filesystem::remove(foregather.database);
    CHECK(foregather.record(std::move(options), {"sh", "-c", "env > " + said}) == 0);
    std::map<std::string, std::string> found;
    std::ifstream file(said);
    for (std::string line; std::getline(file, line);)
      if (const auto equals = line.find('='); line.starts_with("FOREGATHER_"))
        found[line.substr(0, equals)] = line.substr(equals + 1);
    return found;
  };
  auto said_to = variables_of({"--host-only"});
  CHECK(said_to[profiler::kDirectoryVariable] == foregather.raw);
  CHECK(said_to[profiler::kHostOnlyVariable] == "1");
  CHECK_FALSE(said_to.contains(profiler::kKindsVariable));
  CHECK_FALSE(said_to.contains(profiler::kDelayVariable));
  said_to = variables_of({"--kinds", "nvtx", "--delay", "0.5", "--duration", "2", "--steps", "3..5",
                          "--max-size", "2GiB"});
  std::string unknown;
  CHECK(said_to[profiler::kKindsVariable] ==
        std::to_string(*profiler::parse_kinds("nvtx", unknown)));
  CHECK(said_to[profiler::kDelayVariable] == "500000000");
  CHECK(said_to[profiler::kDurationVariable] == "2000000000");
  CHECK(said_to[profiler::kStepsVariable] == "3..5");
  CHECK(said_to[profiler::kBytesVariable] == "2147483648");
  CHECK_FALSE(said_to.contains(profiler::kHostOnlyVariable));
  CHECK(variables_of({"--range", "train"})[profiler::kRangeVariable] == "train");
}

TEST_CASE("record: a folder of the raw recordings' name is never followed or reused") {
  Foregather foregather;
  REQUIRE(::symlink(foregather.scratch.path("elsewhere").c_str(), foregather.raw.c_str()) == 0);
  CHECK(foregather.record({"--host-only"}, {"true"}) == 2);
  CHECK(foregather.errors().find("is of an earlier recording") != std::string::npos);
}

TEST_CASE("record: device work of two ranks is one run") {
  Foregather foregather;
  foregather.variables["LD_LIBRARY_PATH"] = FOREGATHER_FAKE_CUPTI;
  const std::string script = std::string("RANK=0 WORLD_SIZE=2 ") + kProgram +
                             " device 100 & RANK=1 WORLD_SIZE=2 " + kProgram + " device 100; wait";
  REQUIRE(foregather.record({}, {"sh", "-c", script}) == 0);
  INFO(foregather.errors());
  CHECK(query(foregather.database,
              "SELECT world_size, (SELECT count(*) FROM rank_class), (SELECT "
              "count(*) FROM op) FROM run") == Rows{{"2", "2", "400"}});
  CHECK(value(foregather.database,
              "SELECT count(*) FROM op o JOIN string s ON s.id = o.source "
              "WHERE text = 'add(float*, float*, int)'") == "400");
  CHECK(foregather.run({"simulate", foregather.database, "--step", "0"}) <= 2);
}

// The side-car writes while the command runs, and the command ends when the file is there.
TEST_CASE("record: memory snapshots of the side-car are merged by time") {
  Foregather foregather;
  foregather.variables["LD_LIBRARY_PATH"] = FOREGATHER_FAKE_CUPTI;
  const std::string ready = foregather.scratch.path("ready"), go = foregather.scratch.path("go");
  const pid_t pid = foregather.start(
      {"record", "-o", foregather.database, "--", "sh", "-c",
       std::string("RANK=0 WORLD_SIZE=2 ") + kProgram + " device 100; RANK=1 WORLD_SIZE=2 " +
           kProgram + " device 100; touch " + ready + "; for i in $(seq 1000); do [ -e " + go +
           " ] && exit 0; sleep 0.05; done; exit 9"});
  for (int i = 0; i < 1000 && !foregather.has(ready); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  REQUIRE(foregather.has(ready));
  std::string recording;
  for (const std::string& file : test::raw_files(foregather.raw))
    if (file.find("rank1_") != std::string::npos) recording = file;
  REQUIRE_FALSE(recording.empty());
  // Behind the begin of the first call, and behind its end.
  const std::string time =
      "SELECT (utcEpochNs + (SELECT start FROM CUPTI_ACTIVITY_KIND_RUNTIME ORDER BY start "
      "LIMIT 1 OFFSET 100)) / 1000 FROM TARGET_INFO_SESSION_START_TIME";
  const std::int64_t us = std::stoll(value(recording, time));
  std::ofstream(recording.substr(0, recording.rfind('.')) + ".step3.memory.pickle",
                std::ios::binary)
      << test::snapshot_pickle({{"alloc", 2048, 512, us},
                                {"alloc", 2560, 1024, us + 20},
                                {"free_requested", 2048, 512, us + 40},
                                {"free_completed", 2048, 512, us + 40}},
                               {{2048, true}, {512, false}, {1024, true}});
  std::ofstream(go) << "";
  CHECK(test::wait_for(pid) == 0);
  INFO(foregather.errors());
  CHECK_FALSE(foregather.has(foregather.raw));
  const std::string of_rank1 =
      " JOIN step t ON t.id = step JOIN rank_class c ON c.id = t.rank_class "
      "JOIN string s ON s.id = c.name WHERE s.text = 'rank 1' ";
  CHECK(query(foregather.database,
              "SELECT allocated, reserved FROM memory m" + of_rank1 + "ORDER BY time_ns") ==
        Rows{{"2560", "2097152"}, {"3584", "2097152"}, {"3072", "2097152"}});
  CHECK(query(foregather.database,
              "SELECT block_bytes, from_before, still_bound, freed_ns - "
              "allocated_ns FROM binding b" +
                  of_rank1 + "AND address != 0 ORDER BY allocated_ns")
            .front() == std::vector<std::string>{"512", "0", "0", "40000"});
  CHECK(value(foregather.database,
              "SELECT t.peak_allocated FROM step t JOIN rank_class c ON "
              "c.id = t.rank_class JOIN string s ON s.id = c.name WHERE s.text = "
              "'rank 1'") == "3584");
  CHECK(value(foregather.database,
              "SELECT count(*) FROM memory m JOIN step t ON t.id = step WHERE "
              "t.rank_class = 0") == "0");
  // The allocation is of the op that is launched next, whose kernel begins behind it.
  CHECK(value(foregather.database,
              "SELECT count(*) FROM binding b JOIN op o ON o.id = b.before_op WHERE "
              "b.block_bytes = 512 AND o.start_ns BETWEEN b.allocated_ns AND b.allocated_ns + "
              "20000") == "1");
}

TEST_CASE("record: a terminal shows how many records there are") {
  Foregather foregather;
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  REQUIRE(terminal >= 0);
  REQUIRE(::grantpt(terminal) == 0);
  REQUIRE(::unlockpt(terminal) == 0);
  const pid_t pid = test::start({test::program_path(), "record", "--host-only", "-o",
                                 foregather.database, "--", kProgram, "forever"},
                                {}, ::ptsname(terminal));
  const std::regex line(R"(recording: (\d+) process(?:es)?, ([\d,]+) records, 0 dropped, )"
                        R"([\d.]+ \w+, [\d,]+ records/s)");
  std::string shown;
  std::vector<std::int64_t> records;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (std::chrono::steady_clock::now() < until &&
         (records.empty() || records.back() < 2 * records.front())) {
    pollfd ready{terminal, POLLIN, 0};
    if (::poll(&ready, 1, 500) <= 0) continue;
    char some[4096];
    const ssize_t n = ::read(terminal, some, sizeof some);
    if (n <= 0) break;
    shown.append(some, static_cast<std::size_t>(n));
    for (std::smatch found; std::regex_search(shown, found, line); shown = found.suffix().str()) {
      std::string number = found[2];
      std::erase(number, ',');
      if (found[1] == "1" && number != "0") records.push_back(std::stoll(number));
    }
  }
  INFO(shown);
  REQUIRE(::kill(pid, SIGTERM) == 0);
  CHECK(test::wait_for(pid) == 128 + SIGTERM);
  ::close(terminal);
  REQUIRE(records.size() >= 2);
  CHECK(records.back() >= 2 * records.front());
}

TEST_CASE("record: another tool's variables are left to it, and that is told") {
  Foregather foregather;
  foregather.variables["NVTX_INJECTION64_PATH"] = "/opt/nsys/libToolsInjection64.so";
  CHECK(foregather.record({"--host-only"}, {"true"}) == 0);
  CHECK(foregather.errors().find("NVTX_INJECTION64_PATH is set to /opt/nsys") != std::string::npos);
  std::filesystem::remove(foregather.database);
  foregather.variables["KINETO_USE_DAEMON"] = "1";
  CHECK(foregather.record({}, {"true"}) == 0);
  CHECK(foregather.errors().find("KINETO_USE_DAEMON is set: where another profiler is attached to "
                                 "CUPTI, which takes one at a time, NVTX and NCCL are recorded and "
                                 "device work is not") != std::string::npos);
}

}  // namespace
}  // namespace foregather

#endif
