// What the program says of plug-ins that it cannot use: run from a folder where none, a broken one
// or the real one lies beside it.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <catch2/catch.hpp>

#include "tests/support/places.h"
#include "tests/support/scratch.h"
#include "tests/support/skip.h"

using namespace foregather;

namespace {

constexpr const char* kPlugIn = "libforegather_backend_cuda.so";

struct Said {
  int exit = -1;
  std::string text;
};

Said run_beside(const test::Scratch& folder) {
  std::filesystem::remove(folder.path("foregather"));
  std::filesystem::copy(test::program_path(), folder.path("foregather"));
  // CUDA_VISIBLE_DEVICES: where there is a GPU, it is not to be found.
  const std::string command = "CUDA_VISIBLE_DEVICES= " + folder.path("foregather") + " run " +
                              test::source_dir() + "/traces/samples/tiny_fsdp2.toml" +
                              " --backend cuda -n 2 -o " + folder.path("run.db") + " 2>&1";
  Said said;
  FILE* const pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  for (int c = 0; (c = std::fgetc(pipe)) != EOF;) said.text += static_cast<char>(c);
  const int status = ::pclose(pipe);
  said.exit = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  CHECK(!std::filesystem::exists(folder.path("run.db")));
  return said;
}

}  // namespace

TEST_CASE("without the plug-in the program says where it would be and what to do") {
  const test::Scratch folder;
  const Said said = run_beside(folder);
  CHECK(said.exit == 2);
  CHECK(said.text.find("there is no libforegather_backend_cuda.so beside the program") !=
        std::string::npos);
  CHECK(said.text.find("or use host") != std::string::npos);
}

TEST_CASE("a plug-in of another version and one that is none are refused") {
  const test::Scratch folder;
  std::filesystem::copy(FOREGATHER_OTHER_VERSION, folder.path(kPlugIn));
  const Said other = run_beside(folder);
  CHECK(other.exit == 2);
  CHECK(other.text.find("is of another version of this program") != std::string::npos);

  std::filesystem::remove(folder.path(kPlugIn));
  folder.write(kPlugIn, "no library");
  const Said broken = run_beside(folder);
  CHECK(broken.exit == 2);
  CHECK(broken.text.find("cannot be opened") != std::string::npos);
}

TEST_CASE("the plug-in opens without a driver, and says what is missing") {
#ifndef FOREGATHER_CUDA_PLUG_IN
  FOREGATHER_SKIP("the CUDA backend was not built");
#else
  const test::Scratch folder;
  std::filesystem::copy(FOREGATHER_CUDA_PLUG_IN, folder.path(kPlugIn));
  const Said said = run_beside(folder);
  CHECK(said.exit == 1);
  const bool is_named = said.text.find("there is no NVIDIA driver") != std::string::npos ||
                        said.text.find("no GPU can be used") != std::string::npos;
  INFO(said.text);
  CHECK(is_named);
  CHECK(said.text.find("use --backend host") != std::string::npos);
#endif
}
