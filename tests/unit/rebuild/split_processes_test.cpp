// A file of several processes is a recording of each.
#include "core/rebuild/split_processes.h"

#include <catch2/catch.hpp>

#include "core/rebuild/measured_run.h"
#include "core/rebuild/processes.h"
#include "tests/unit/rebuild/recordings.h"

namespace foregather::rebuild {
namespace {

// Process 20 works on device 1 and copies once to device 0; process 30 works on device 0. A
// launcher does nothing on a device.
run::Recording node() {
  test::RecordingWriter w;
  const auto launcher = w.lane("10", "10"), b = w.lane("20", "21"), a = w.lane("30", "31");
  const auto device0 = w.lane("0", "7"), device1 = w.lane("1", "15"), peer = w.lane("0", "15");
  w.range(launcher, "launch", 0, 100);
  w.call(b, "cudaLaunchKernel", 1, 2, 0);
  w.kernel(device1, "gemm of 20", 5, 15, 0);
  w.call(a, "cudaLaunchKernel", 1, 2, 1);
  w.kernel(device0, "gemm of 30", 4, 24, 1);
  w.call(b, "cudaMemcpyPeerAsync", 3, 4, 2);
  w.kernel(peer, "copy of 20", 16, 20, 2);
  w.call(b, "cudaLaunchKernel", 4, 5, 3);
  w.kernel(device1, "norm of 20", 20, 30, 3);
  w.kernel(device0, "by nobody", 25, 26);
  w.range(b, "forward", 1, 6);
  w.recording.source = "node.sqlite";
  return std::move(w.recording);
}

std::vector<std::string> kernels_of(const run::Recording& recording) {
  std::vector<std::string> names;
  for (const StringId name : recording.activities.name) names.emplace_back(recording.text(name));
  return names;
}

}  // namespace

TEST_CASE("processes that work on devices are parts, in the order of their devices") {
  const auto parts = split_processes(std::make_shared<run::Recording>(node()));
  REQUIRE(parts.size() == 2);
  CHECK(kernels_of(*parts[0]) == std::vector<std::string>{"gemm of 30", "by nobody"});
  CHECK(kernels_of(*parts[1]) ==
        std::vector<std::string>{"gemm of 20", "copy of 20", "norm of 20"});
  CHECK(parts[0]->calls.size() == 1);
  CHECK(parts[1]->calls.size() == 3);
  CHECK(parts[0]->ranges.size() == 1);  // the launcher's
  CHECK(parts[1]->ranges.size() == 1);
  CHECK(parts[1]->text(parts[1]->ranges.name[0]) == "forward");
}

TEST_CASE("device work is of the process that its record names, launched on record or not") {
  test::RecordingWriter w;
  const auto a = w.lane("9", "9"), device = w.lane("0", "7");
  const StringId nine = w.recording.strings.intern("9"), ten = w.recording.strings.intern("10");
  w.kernel(device, "first of 10", 1, 2);
  w.kernel(device, "first of 9", 1, 2);
  w.call(a, "cudaLaunchKernel", 1, 2, 0);
  w.kernel(device, "second of 9", 3, 4, 0);
  w.kernel(device, "second of 10", 3, 4);
  w.kernel(device, "by nobody", 5, 6);
  w.recording.activities.process = {ten, nine, nine, ten, {}};
  run::SyncColumns& syncs = w.recording.syncs;
  syncs.lane = {device, device};
  syncs.start = syncs.end = {4, 5};
  syncs.correlation = {{}, {}};
  syncs.process = {ten, nine};
  const auto parts = split_processes(std::make_shared<run::Recording>(w.recording));
  REQUIRE(parts.size() == 2);
  CHECK(kernels_of(*parts[0])[0] == "first of 9");
  CHECK(kernels_of(*parts[0])[1] == "second of 9");
  CHECK(kernels_of(*parts[1])[0] == "first of 10");
  CHECK(kernels_of(*parts[1])[1] == "second of 10");
  CHECK(parts[0]->activities.size() + parts[1]->activities.size() == 5);
  CHECK(parts[0]->syncs.start == std::vector<Ns>{5});
  CHECK(parts[1]->syncs.start == std::vector<Ns>{4});
}

TEST_CASE("a recording of one process stays as it is, and so does one of a named rank") {
  const auto one = split_processes(std::make_shared<run::Recording>(node())).front();
  CHECK(split_processes(one) == std::vector{one});
  auto named = std::make_shared<run::Recording>(node());
  named->rank = 3;
  const std::shared_ptr<const run::Recording> file = named;
  CHECK(one_a_rank(std::vector{file}) == std::vector{file});
}

TEST_CASE("ranks of one file have one clock") {
  const std::shared_ptr<const run::Recording> file = std::make_shared<run::Recording>(node());
  const auto ranks = one_a_rank(std::vector{file});
  REQUIRE(ranks.size() == 2);
  const run::Recording* const recordings[] = {ranks[0].get(), ranks[1].get()};
  const auto measured = measured_run(recordings, std::nullopt);
  REQUIRE(measured);
  CHECK(measured->warnings.empty());
  CHECK(measured->run.about.world_size == 2);
  REQUIRE(measured->run.classes.size() == 2);
  // By the file's clock, less its first start.
  CHECK(measured->run.ops.start[2] - measured->run.ops.start[0] == 1000);
}

}  // namespace foregather::rebuild
