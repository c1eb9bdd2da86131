// Everything a user can see, as text. UPDATE_GOLDEN=1 rewrites the transcripts: look at the diff.
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <catch2/catch.hpp>

#include "tests/golden/process.h"
#include "tests/golden/transcript.h"
#include "tests/support/places.h"
#include "tests/support/repetitions.h"
#include "tests/support/skip.h"

namespace {

namespace fs = std::filesystem;
using foregather::test::program_path;
using foregather::test::run_process;
using foregather::test::source_dir;

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void check(const std::string& name) {
  const fs::path path = fs::path(source_dir()) / "tests/golden/transcripts" / (name + ".txt");
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
TEST_CASE("several recorded ranks") { check("ranks"); }
TEST_CASE("files of other tools") { check("foreign"); }
TEST_CASE("calibration") { check("calibrate"); }
TEST_CASE("warnings") { check("warnings"); }
TEST_CASE("DeepCompile") { check("deepcompile"); }
TEST_CASE("memory snapshots") { check("memory"); }
TEST_CASE("Thunder traces") { check("thunder"); }
TEST_CASE("recorded runs of other tools") { check("import"); }
TEST_CASE("Chakra and execution traces") { check("chakra"); }
TEST_CASE("two runs side by side") { check("compare"); }
TEST_CASE("a recording of several steps against its replay") { check("replayed"); }
TEST_CASE("sweeps") { check("sweep"); }
TEST_CASE("searches") { check("search"); }
TEST_CASE("a search of too many points to look at all") {
  if (foregather::test::kSanitized) FOREGATHER_SKIP("it takes two minutes under a sanitizer");
  check("search_large");
}
TEST_CASE("published effects") { check("reproduce"); }
TEST_CASE("published results") { check("validate"); }
TEST_CASE("schedules that cannot run") { check("run"); }
TEST_CASE("module trees") { check("trees"); }
TEST_CASE("module trees that cannot be") { check("trees_bad"); }

TEST_CASE("every transcript is a test") {
  const std::set<std::string> known = {
      "help",    "samples", "json",         "usage",    "bad_input", "outputs",   "oom",
      "what_if", "memory",  "foreign",      "warnings", "thunder",   "trees",     "trees_bad",
      "import",  "chakra",  "deepcompile",  "compare",  "ranks",     "calibrate", "sweep",
      "run",     "search",  "search_large", "replayed", "reproduce", "validate"};
  std::set<std::string> found;
  for (const auto& entry :
       fs::directory_iterator(fs::path(source_dir()) / "tests/golden/transcripts"))
    found.insert(entry.path().stem().string());
  CHECK(found == known);
}

TEST_CASE("the same command gives the same bytes, wherever it runs") {
  const foregather::test::TemporaryDirectory directory;
  const std::string sample = source_dir() + "/traces/samples/tiny_fsdp2.toml";
  std::set<std::string> seen;
  for (int run = 0; run < 20; ++run) {
    const std::string where = run % 2 == 0 ? source_dir() : directory.path();
    const auto result = run_process({program_path(), "simulate", sample, "--json"}, where);
    REQUIRE(result.exit == 0);
    seen.insert(without_wall_time(result.out));
  }
  CHECK(seen.size() == 1);
}

TEST_CASE("doctor always succeeds") {
  const auto result = run_process({program_path(), "doctor"}, source_dir());
  CHECK(result.exit == 0);
  CHECK(result.out.find("GPU") != std::string::npos);
}

TEST_CASE("nothing from outside reaches the terminal unescaped") {
  const foregather::test::TemporaryDirectory directory;
  const std::string evil = "a\n\x1b[31mb\x9b.toml";
  const auto is_clean = [](const std::string& text) {
    return text.find('\x1b') == std::string::npos && text.find('\x9b') == std::string::npos;
  };
  const auto refused = [&](const std::vector<std::string>& arguments) {
    std::vector<std::string> all{program_path()};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const auto result = run_process(all, source_dir());
    CAPTURE(result.err);
    CHECK(result.exit == 2);
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
    CHECK(is_clean(result.err));
  };
  const std::string sample = "traces/samples/tiny_fsdp2.toml";
  refused({"simulate", evil});
  refused({"simulate", "--" + evil});
  refused({evil});
  refused({"memory", evil});
  refused({"export", evil, "--format", evil, "-o", directory.path() + "/x"});
  for (const std::string key : {"", "train.", "train.micro_batch=", "cluster.hardware=",
                                "model.config=", "allocator.conf=", "model.hidden_act="})
    refused({"simulate", sample, "--set", key + evil});
  refused({"simulate", sample, "--what-if", evil});

  const std::string path = directory.path() + "/" + evil;
  fs::copy(fs::path(source_dir()) / "traces/samples/configs", directory.path() + "/configs");
  fs::copy(fs::path(source_dir()) / sample, path);
  const auto result = run_process(
      {program_path(), "simulate", path, "-o", path + ".db", "--set", "train.momentum=1"},
      directory.path());
  CAPTURE(result.out);
  CHECK(result.exit == 0);
  CHECK(is_clean(result.out + result.err));
  CHECK(result.out.starts_with("a\\n\\x1b[31mb\\x9b\n"));
}

TEST_CASE("what is no readable file is refused in one line, and nothing is left behind") {
  const foregather::test::TemporaryDirectory directory;
  const fs::path root = directory.path();
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(root / name, std::ios::binary) << text;
    return (root / name).string();
  };
  const auto files = [&] {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(root)) names.insert(entry.path().string());
    return names;
  };
  REQUIRE(::mkfifo((root / "fifo").c_str(), 0600) == 0);
  fs::create_symlink("loop", root / "loop");
  fs::create_directory(root / "folder.toml");
  const std::string workload = content(fs::path(source_dir()) / "traces/samples/tiny_fsdp2.toml");
  std::vector<std::string> bad = {
      (root / "fifo").string(),
      (root / "loop").string(),
      (root / "folder.toml").string(),
      "/dev/zero",
      "/dev/null",
      root.string(),
      (root / "nothing").string(),
      (root / std::string(5000, 'x')).string(),
      write("large.json", "{\"a\": \"" + std::string(10'000'000, 'x') + "\"}"),
      write("lists.json", std::string(100'000, '[') + std::string(100'000, ']')),
      write("lists.toml", "a = " + std::string(100'000, '[') + std::string(100'000, ']')),
      write("tables.toml", "a = " + std::string(5'000, '{') + std::string(5'000, '}')),
      write("digits.toml", "[train]\nmicro_batch = " + std::string(500'000, '9')),
      write("nul.toml", workload + '\0'),
      write("half.toml", workload.substr(0, 66)),
      write("wide.toml", "\xff\xfe[\0m\0")};
  const std::string sample = source_dir() + "/traces/samples/tiny_fsdp2.toml";
  const std::set<std::string> before = files();
  for (const std::string& path : bad)
    for (const std::string key : {"", "model.config=", "cluster.hardware=./",
                                  "parallel.deepspeed_config=", "parallel.torchtitan_config="}) {
      std::vector<std::string> arguments{program_path(),
                                         "simulate",
                                         key.empty() ? path : sample,
                                         "-o",
                                         directory.path() + "/out.db",
                                         "--json"};
      if (!key.empty()) arguments.insert(arguments.end(), {"--set", key + path});
      const auto result = run_process(arguments, directory.path());
      CAPTURE(key, path.substr(0, 80), result.err.substr(0, 300));
      CHECK(result.exit == 2);
      CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
      CHECK(result.err.size() < 1600);
      CHECK(result.out.empty());
      CHECK(files() == before);
    }
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
    const auto result = run_process({program_path(), "simulate", path}, directory.path());
    CAPTURE(round, result.err);
    CHECK(result.exit == 2);
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
    CHECK(result.out.empty());
  }
}
