// A recording is killed at random moments. FOREGATHER_KILLS says how often (20).
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <catch2/catch.hpp>

#include "core/store/reader.h"
#include "core/store/sqlite.h"
#include "tests/support/places.h"
#include "tests/support/repetitions.h"
#include "tests/support/scratch.h"

using namespace foregather;

namespace {

namespace fs = std::filesystem;

pid_t start_run(const std::string& database) {
  const std::string source = test::source_dir() + "/traces/samples/tiny_fsdp2.toml";
  const std::string program = test::program_path();
  const pid_t child = ::fork();
  if (child != 0) return child;
  const int null = ::open("/dev/null", O_WRONLY);
  ::dup2(null, STDOUT_FILENO);
  ::dup2(null, STDERR_FILENO);
  ::execl(program.c_str(), program.c_str(), "run", source.c_str(), "--backend", "host", "-n", "4",
          "--steps", "1000", "-o", database.c_str(), nullptr);
  ::_exit(127);
}

std::string integrity(const std::string& path) {
  auto database = store::Database::open(path);
  if (!database) return database.error().text();
  auto query = database->prepare("PRAGMA integrity_check");
  if (!query) return query.error().text();
  const auto row = query->next();
  return row && *row ? std::string(query->text(0)) : "nothing";
}

}  // namespace

TEST_CASE("a run that is killed leaves a file that opens") {
  const char* const asked = std::getenv("FOREGATHER_KILLS");
  const int kills = asked == nullptr ? test::repetitions(20) : std::atoi(asked);
  // The flush interval, and what a busy machine may take to commit.
  constexpr std::chrono::milliseconds kMostLost{1000 + 1000};
  std::mt19937 random(7);
  int with_rows = 0;
  for (int i = 0; i < kills; ++i) {
    const test::Scratch scratch;
    const std::string path = scratch.path("run.db");
    const pid_t child = start_run(path);
    REQUIRE(child > 0);
    const auto wait =
        std::chrono::microseconds(std::uniform_int_distribution(0, 3'000'000)(random));
    std::this_thread::sleep_for(wait);
    const auto killed = fs::file_time_type::clock::now();
    REQUIRE(::kill(child, SIGKILL) == 0);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    INFO("killed after " << wait.count() << " us");
    if (!fs::exists(path) || fs::file_size(path) == 0) continue;  // before the first transaction
    const auto last_commit = fs::last_write_time(path);
    CHECK(integrity(path) == "ok");
    const auto run = store::read_run(path);
    if (!run) {
      // Between the tables and the first rows.
      CHECK(run.error().message.find("holds no run") != std::string::npos);
      continue;
    }
    CHECK(run->about.state == run::RunState::under_way);
    if (run->ops.size() == 0) continue;
    ++with_rows;
    CHECK(killed - last_commit <= kMostLost);
    // All that had ended by the commit is there: nothing is committed out of turn.
    for (std::size_t s = 0; s < run->steps.size(); ++s) {
      const auto [first, last] = run::ops_of(*run, run::StepRow(s));
      for (std::size_t op = first; op < last; ++op) CHECK(run->ops.end[op] <= run->steps[s].end);
    }
  }
  if (kills >= 20) CHECK(with_rows > kills / 4);
}
