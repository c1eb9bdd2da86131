// A sweep that is killed again and again. FOREGATHER_KILLS says how often
// (tests/faults/sweep_kill).
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <thread>

#include <catch2/catch.hpp>

#include "tests/support/places.h"
#include "tests/support/processes.h"
#include "tests/support/repetitions.h"
#include "tests/support/scratch.h"

using namespace foregather;

TEST_CASE("a sweep that is killed again and again has every row once") {
  const char* asked = std::getenv("FOREGATHER_KILLS");
  const int kills = asked == nullptr ? 10 : std::atoi(asked);
  const int most_batch = test::repetitions(40), most_links = test::repetitions(8);
  const test::Scratch scratch;
  const std::string source = test::source_dir() + "/traces/samples/tiny_fsdp2.toml";
  const auto command = [&](const std::string& database) {
    return std::vector<std::string>{test::program_path(),
                                    "sweep",
                                    source,
                                    "--vary",
                                    "train.micro_batch=1.." + std::to_string(most_batch),
                                    "--vary",
                                    "train.seq_len=8..256+8",
                                    "--vary",
                                    "cluster.link_bandwidth_scale=1.." + std::to_string(most_links),
                                    "-j",
                                    "2",
                                    "-o",
                                    database,
                                    "--resume"};
  };
  const std::string whole = scratch.path("whole.db"), cut = scratch.path("cut.db");
  const auto clock = [] { return std::chrono::steady_clock::now(); };
  const auto begun = clock();
  REQUIRE(test::end_of(test::begin_process(command(whole), {}, scratch.path("out"))) == 0);
  const auto took = std::chrono::duration<double>(clock() - begun).count();

  std::mt19937 random(7);
  std::size_t before = 0;
  int died = 0;
  for (int i = 0; i < kills; ++i) {
    const pid_t child = test::begin_process(command(cut), {}, scratch.path("out"));
    const double most = 2.5 * took / kills;
    std::this_thread::sleep_for(
        std::chrono::duration<double>(std::uniform_real_distribution<double>(0, most)(random)));
    ::kill(child, SIGKILL);
    died += test::end_of(child) == -SIGKILL ? 1 : 0;
  }
  CHECK(died > 0);
  before = std::filesystem::exists(cut) && std::filesystem::file_size(cut) > 0 ? 1 : 0;
  CAPTURE(took, died, before);
  REQUIRE(test::end_of(test::begin_process(command(cut), {}, scratch.path("out"))) == 0);
  const auto expected = test::stored_points(whole), found = test::stored_points(cut);
  REQUIRE(expected.size() == static_cast<std::size_t>(most_batch) * 32 * most_links);
  CHECK(found == expected);
}
