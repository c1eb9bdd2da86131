// Everything a user can see, as text. UPDATE_GOLDEN=1 rewrites the transcripts: look at the diff.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <catch2/catch.hpp>

#include "tests/golden/process.h"
#include "tests/golden/transcript.h"

namespace {

namespace fs = std::filesystem;
using foregather::test::run_process;

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void check(const std::string& name) {
  const fs::path path =
      fs::path(FOREGATHER_SOURCE_DIR) / "tests/golden/transcripts" / (name + ".txt");
  const std::string expected = content(path);
  REQUIRE_FALSE(expected.empty());
  const std::string now = foregather::test::replay(expected);
  if (std::getenv("UPDATE_GOLDEN") != nullptr)
    std::ofstream(path, std::ios::binary) << now;
  else
    CHECK(now == expected);
}

std::string without_wall_time(const std::string& json) {
  std::string kept;
  std::istringstream lines(json);
  for (std::string line; std::getline(lines, line);)
    if (line.find("simulated_in_ns") == std::string::npos) kept += line + '\n';
  return kept;
}

}  // namespace

TEST_CASE("help texts") { check("help"); }
TEST_CASE("summaries of the samples") { check("samples"); }
TEST_CASE("json of the smallest sample") { check("json"); }
TEST_CASE("bad usage") { check("usage"); }
TEST_CASE("bad input") { check("bad_input"); }
TEST_CASE("outputs") { check("outputs"); }
TEST_CASE("out of memory is a result") { check("oom"); }
TEST_CASE("what if") { check("what_if"); }
TEST_CASE("files of other tools") { check("foreign"); }
TEST_CASE("memory snapshots") { check("memory"); }
TEST_CASE("Thunder traces") { check("thunder"); }

TEST_CASE("the README shows what the program prints") {
  const fs::path root = FOREGATHER_SOURCE_DIR;
  const std::string samples = content(root / "tests/golden/transcripts/samples.txt");
  const std::string readme = content(root / "README.md");
  const auto begin = readme.find("    $ foregather simulate traces/samples/llama3_8b_fsdp2.toml\n");
  REQUIRE(begin != std::string::npos);
  std::istringstream lines(readme.substr(begin));
  std::string line;
  std::getline(lines, line);
  int shown = 0;
  while (std::getline(lines, line) && (line.empty() || line.starts_with("    "))) {
    if (line.empty() || line == "      …") continue;
    INFO(line);
    CHECK(samples.find(line.substr(4)) != std::string::npos);
    ++shown;
  }
  CHECK(shown > 5);
}

TEST_CASE("every transcript is a test") {
  const std::set<std::string> known = {"help",      "samples", "json",   "usage",
                                       "bad_input", "outputs", "oom",    "what_if",
                                       "memory",    "foreign", "thunder"};
  std::set<std::string> found;
  for (const auto& entry :
       fs::directory_iterator(fs::path(FOREGATHER_SOURCE_DIR) / "tests/golden/transcripts"))
    found.insert(entry.path().stem().string());
  CHECK(found == known);
}

TEST_CASE("the same command gives the same bytes, wherever it runs") {
  const foregather::test::TemporaryDirectory directory;
  const std::string sample = std::string(FOREGATHER_SOURCE_DIR) + "/traces/samples/tiny_fsdp2.toml";
  std::set<std::string> seen;
  for (int run = 0; run < 20; ++run) {
    const std::string where = run % 2 == 0 ? FOREGATHER_SOURCE_DIR : directory.path();
    const auto result = run_process({FOREGATHER_BINARY, "simulate", sample, "--json"}, where);
    REQUIRE(result.exit == 0);
    seen.insert(without_wall_time(result.out));
  }
  CHECK(seen.size() == 1);
}

TEST_CASE("doctor always succeeds") {
  const auto result = run_process({FOREGATHER_BINARY, "doctor"}, FOREGATHER_SOURCE_DIR);
  CHECK(result.exit == 0);
  CHECK(result.out.find("GPU") != std::string::npos);
}

TEST_CASE("random bytes are refused in one line") {
  const foregather::test::TemporaryDirectory directory;
  std::uint64_t state = 0x9E3779B97F4A7C15U;
  for (int round = 0; round < 40; ++round) {
    std::string bytes;
    for (int i = 0; i < 1 + round * 13; ++i) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      bytes += static_cast<char>(state >> 56);
    }
    const std::string path = directory.path() + (round % 2 == 0 ? "/random.toml" : "/random.bin");
    std::ofstream(path, std::ios::binary) << bytes;
    const auto result = run_process({FOREGATHER_BINARY, "simulate", path}, directory.path());
    CAPTURE(round, result.err);
    CHECK(result.exit == 2);
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
    CHECK(result.out.empty());
  }
}
