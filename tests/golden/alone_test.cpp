// The program away from what is built beside it, and its standard output.
#include <filesystem>
#include <fstream>
#include <catch2/catch.hpp>

#include "tests/golden/process.h"
#include "tests/support/places.h"

namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using foregather::test::program_path;
using foregather::test::run_process;

}  // namespace

TEST_CASE("a program that stands alone names what builds the rest") {
  const foregather::test::TemporaryDirectory directory;
  const std::string alone = directory.path() + "/foregather";
  fs::copy_file(program_path(), alone);
  const auto recorded =
      run_process({alone, "record", "--host-only", "--", "/bin/true"}, directory.path());
  CHECK(recorded.exit == 1);
  CHECK_THAT(recorded.err, Contains("build the CMake target foregather_inject"));
  const auto seen = run_process({alone, "doctor"}, directory.path());
  CHECK_THAT(seen.out, Contains("fix: build the CMake target foregather_inject"));
  const auto drawn =
      run_process({"/usr/bin/env", "PATH=/nowhere", alone, "render", "run.db", "-o", "run.png"},
                  directory.path());
  CHECK(drawn.exit == 1);
  CHECK_THAT(drawn.err, Contains("the CMake target foregather-gui builds it"));
}

TEST_CASE("export writes to standard output what it writes to a file") {
  const foregather::test::TemporaryDirectory directory;
  const std::string sample = foregather::test::source_dir() + "/traces/samples/tiny_fsdp2.toml";
  REQUIRE(
      run_process({program_path(), "simulate", sample, "-o", "run.db"}, directory.path()).exit ==
      0);
  const std::vector<std::string> to{program_path(), "export", "run.db", "-f", "csv", "-o"};
  const auto exported = [&](const char* output, const std::string& stdout_file = "") {
    auto arguments = to;
    arguments.emplace_back(output);
    const auto result = run_process(arguments, directory.path(), stdout_file);
    CHECK(result.exit == 0);
    CHECK(result.err.empty());
    return result.out;
  };
  CHECK(exported("ops.csv") == "wrote ops.csv\n");
  const std::string there = exported("-");
  exported("-", directory.path() + "/redirected.csv");
  const auto content = [&](const char* name) {
    std::ifstream file(fs::path(directory.path()) / name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  CHECK(there.size() > 10'000);
  CHECK(there == content("ops.csv"));
  CHECK(there == content("redirected.csv"));
  CHECK_FALSE(fs::exists(fs::path(directory.path()) / "-"));
}

TEST_CASE("published effects without their samples name the option that has them") {
  const foregather::test::TemporaryDirectory directory;
  const auto result = run_process({program_path(), "reproduce"}, directory.path());
  CHECK(result.exit == 2);
  CHECK_THAT(result.err, Contains("expected --samples DIR"));
}
