// A sweep that is killed again and again. FOREGATHER_KILLS says how often
// (tests/faults/sweep_kill).
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include <catch2/catch.hpp>

#include "core/store/sweep_reader.h"
#include "tests/support/scratch.h"

using namespace foregather;

namespace {

using Arguments = std::vector<std::string>;

pid_t begin(const Arguments& arguments, const std::string& out) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const int file = ::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::dup2(file, 1);
  ::dup2(file, 2);
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

int end(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::vector<run::SweepPoint> rows(const std::string& path) {
  std::vector<run::SweepPoint> all;
  auto reader = store::SweepReader::open(path);
  if (!reader) FAIL(reader.error().text());
  while (true) {
    auto point = reader->next();
    if (!point) FAIL(point.error().text());
    if (!*point) return all;
    all.push_back(std::move(**point));
  }
}

}  // namespace

TEST_CASE("a sweep that is killed again and again has every row once") {
  const char* asked = std::getenv("FOREGATHER_KILLS");
  const int kills = asked == nullptr ? 10 : std::atoi(asked);
  const test::Scratch scratch;
  const std::string source = std::string(FOREGATHER_SOURCE_DIR) + "/traces/samples/tiny_fsdp2.toml";
  const auto command = [&](const std::string& database) {
    return Arguments{FOREGATHER_BINARY,
                     "sweep",
                     source,
                     "--vary",
                     "train.micro_batch=1..40",
                     "--vary",
                     "train.seq_len=8..256+8",
                     "--vary",
                     "cluster.link_bandwidth_scale=1..8",
                     "-j",
                     "2",
                     "-o",
                     database,
                     "--resume"};
  };
  const std::string whole = scratch.path("whole.db"), cut = scratch.path("cut.db");
  const auto clock = [] { return std::chrono::steady_clock::now(); };
  const auto begun = clock();
  REQUIRE(end(begin(command(whole), scratch.path("out"))) == 0);
  const auto took = std::chrono::duration<double>(clock() - begun).count();

  std::mt19937 random(7);
  std::size_t before = 0;
  int died = 0;
  for (int i = 0; i < kills; ++i) {
    const pid_t child = begin(command(cut), scratch.path("out"));
    const double most = 2.5 * took / kills;
    std::this_thread::sleep_for(
        std::chrono::duration<double>(std::uniform_real_distribution<double>(0, most)(random)));
    ::kill(child, SIGKILL);
    died += end(child) == -SIGKILL ? 1 : 0;
  }
  CHECK(died > 0);
  before = std::filesystem::exists(cut) && std::filesystem::file_size(cut) > 0 ? 1 : 0;
  CAPTURE(took, died, before);
  REQUIRE(end(begin(command(cut), scratch.path("out"))) == 0);
  const auto expected = rows(whole), found = rows(cut);
  REQUIRE(expected.size() == 10'240);
  CHECK(found == expected);
}
