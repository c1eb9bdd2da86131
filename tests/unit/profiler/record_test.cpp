// `foregather record`, from the command line to the run.
#include <signal.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include <catch2/catch.hpp>

#include "tests/support/skip.h"
#include "tests/unit/profiler/raw.h"

#if defined(FOREGATHER_INJECT) && defined(FOREGATHER_RECORDED_PROGRAM) && defined(FOREGATHER_BINARY)

namespace foregather {
namespace {

using test::query;
using test::value;
using Rows = std::vector<std::vector<std::string>>;

/// `foregather` in a folder of its own.
struct Foregather {
  pid_t start(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), FOREGATHER_BINARY);
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
  CHECK(foregather.run({"record", "-o", foregather.database}) == 2);
  CHECK(foregather.errors().find("COMMAND is missing") != std::string::npos);
  CHECK(foregather.record({}, {"./no-such-command"}) == 2);
  CHECK(foregather.errors().find("./no-such-command: cannot be run: No such file or directory") !=
        std::string::npos);
  CHECK_FALSE(foregather.has(foregather.raw));
  CHECK(foregather.run({"record", "-o", "/no/such/folder/run.db", "--", "touch", trace}) == 2);
  CHECK_FALSE(foregather.has(trace));
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

TEST_CASE("record: another tool's variables are left to it, and that is told") {
  Foregather foregather;
  foregather.variables["NVTX_INJECTION64_PATH"] = "/opt/nsys/libToolsInjection64.so";
  CHECK(foregather.record({"--host-only"}, {"true"}) == 0);
  CHECK(foregather.errors().find("NVTX_INJECTION64_PATH is set to /opt/nsys") != std::string::npos);
}

}  // namespace
}  // namespace foregather

#endif
