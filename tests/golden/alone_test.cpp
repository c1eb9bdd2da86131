// The program without what is built beside it.
#include <filesystem>
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
