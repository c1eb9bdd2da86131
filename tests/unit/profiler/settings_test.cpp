#include "profiler/settings.h"

#include <cstdlib>

#include <catch2/catch.hpp>

#include "profiler/identity.h"
#include "profiler/recorded_window.h"

namespace foregather::profiler {
namespace {

TEST_CASE("settings: kinds are a list, or changes of the default") {
  std::string unknown;
  CHECK(parse_kinds("kernel,nvtx", unknown) ==
        (static_cast<Kinds>(Kind::kernel) | static_cast<Kinds>(Kind::nvtx)));
  CHECK(parse_kinds("-driver", unknown) == (default_kinds() & ~static_cast<Kinds>(Kind::driver)));
  CHECK(parse_kinds("+nccl-steps,-memory", unknown) ==
        ((default_kinds() | static_cast<Kinds>(Kind::nccl_steps)) &
         ~static_cast<Kinds>(Kind::memory)));
  CHECK_FALSE(parse_kinds("kernel,kernels", unknown));
  CHECK(unknown == "kernels");
  CHECK_FALSE(parse_kinds("", unknown));
  CHECK_FALSE(has(default_kinds(), Kind::graph));
}

TEST_CASE("settings: steps are a number or a stretch of numbers") {
  CHECK(parse_steps("3..5") == std::pair<std::int64_t, std::int64_t>(3, 5));
  CHECK(parse_steps("4") == std::pair<std::int64_t, std::int64_t>(4, 4));
  for (const char* wrong : {"", "5..3", "a", "1..", "-1..2", "1...2"})
    CHECK_FALSE(parse_steps(wrong));
}

TEST_CASE("window: delay and duration bound it") {
  Settings settings;
  settings.delay = 100;
  settings.duration = 50;
  const RecordedWindow window(settings);
  CHECK_FALSE(window.contains(99));
  CHECK(window.contains(100));
  CHECK(window.contains(149));
  CHECK_FALSE(window.contains(150));
  CHECK(window.is_over(150));
}

TEST_CASE("window: ranges open and close it, within each other and one after the other") {
  Settings settings;
  settings.range = "train";
  RecordedWindow window(settings);
  CHECK(window.is_trigger("train"));
  CHECK_FALSE(window.is_trigger("training"));
  CHECK_FALSE(window.contains(5));
  window.opened(10);
  window.opened(12);  // of another thread
  window.closed(20);
  CHECK(window.contains(25));
  window.closed(30);
  window.opened(40);
  window.closed(50);
  CHECK(window.contains(10));
  CHECK_FALSE(window.contains(35));
  CHECK(window.contains(45));
  CHECK_FALSE(window.contains(51));
}

TEST_CASE("window: of more stretches than are kept the last goes on for ever") {
  Settings settings;
  settings.range = "train";
  RecordedWindow window(settings);
  constexpr std::int64_t kStretches = 65'536;
  for (std::int64_t i = 0; i < kStretches; ++i) {
    window.opened(10 * i);
    window.closed(10 * i + 5);
  }
  const std::int64_t last = 10 * (kStretches - 1);
  CHECK_FALSE(window.contains(last + 7));
  window.opened(last + 100);  // rather too much than too little
  CHECK(window.contains(last + 7));
  CHECK(window.contains(last + 1'000'000));
  CHECK_FALSE(window.contains(17));
}

TEST_CASE("window: steps are ranges with a number") {
  Settings settings;
  settings.steps = {3, 4};
  const RecordedWindow window(settings);
  CHECK(window.is_trigger("ProfilerStep#3"));
  CHECK(window.is_trigger("ProfilerStep#4"));
  CHECK_FALSE(window.is_trigger("ProfilerStep#5"));
  CHECK_FALSE(window.is_trigger("ProfilerStep#"));
}

TEST_CASE("identity: ranks are what the launcher says") {
  for (const char* name :
       {"RANK", "LOCAL_RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK"})
    ::unsetenv(name);
  CHECK_FALSE(identify().rank);
  ::setenv("SLURM_PROCID", "5", 1);
  CHECK(identify().rank == 5);
  ::setenv("OMPI_COMM_WORLD_RANK", "3", 1);
  CHECK(identify().rank == 3);  // mpirun within an allocation of Slurm
  ::setenv("RANK", "not a number", 1);
  CHECK(identify().rank == 3);
  ::setenv("RANK", "2", 1);
  ::setenv("WORLD_SIZE", "8", 1);
  Identity identity = identify();
  CHECK(identity.rank == 2);
  CHECK(identity.world_size == 8);
  identity.host = "node-7";
  identity.pid = 4711;
  CHECK(raw_file_name(identity) == "rank2_node-7_4711.sqlite");
  for (const char* name : {"RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"})
    ::unsetenv(name);
}

}  // namespace
}  // namespace foregather::profiler
