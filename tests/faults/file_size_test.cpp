// What a limit on the size of files ends (ulimit -f).
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <catch2/catch.hpp>

#include "core/base/file.h"
#include "tests/support/places.h"
#include "tests/support/scratch.h"

using namespace foregather;

TEST_CASE("a file beyond the limit of the process is said, and nothing is left of it") {
  const test::Scratch scratch;
  const std::string source = test::source_dir() + "/traces/samples/llama3_8b_fsdp2.toml";
  const std::string message = scratch.path("message");
  const std::string trace = scratch.path("trace.json");
  // 1 MiB of a trace's 9: less would end ThreadSanitizer, which writes a file of its own.
  const std::string command = "ulimit -f 2048 && \"" + test::program_path() + "\" simulate \"" +
                              source + "\" --trace \"" + trace + "\" > /dev/null 2> \"" + message +
                              "\"";
  const int status = std::system(command.c_str());
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 1);
  CHECK(read_file(message, MiB).value() ==
        "foregather: " + trace + ": cannot be written: File too large\n");
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator(scratch.path("")))
    ++files;
  CHECK(files == 1);  // the message
}
