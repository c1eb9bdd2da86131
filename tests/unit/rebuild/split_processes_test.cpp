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
  w.kernel(peer, "Memcpy PtoP of 20", 16, 20, 2);
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
        std::vector<std::string>{"gemm of 20", "Memcpy PtoP of 20", "norm of 20"});
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

TEST_CASE(
    "what a second process of a rank recorded is put behind the first, by the first's clock") {
  const auto part = [](std::int64_t process, Ns base) {
    test::RecordingWriter w;
    const auto thread = w.lane(std::to_string(process), "1"), stream = w.lane("0", "7");
    w.call(thread, "cudaStreamWaitEvent", 1, 2, 0);
    w.kernel(stream, "gemm", 3, 4, 0);
    w.memory(thread, 5, 100, 200);
    w.memory({}, 6, 300, 400);
    run::SyncColumns& syncs = w.recording.syncs;
    syncs.lane = {stream};
    syncs.name = {w.recording.strings.intern("Stream Wait Event " + std::to_string(process))};
    syncs.start = syncs.end = {3000};
    syncs.correlation = {run::CorrelationId(0)};
    syncs.recorded = {run::CorrelationId()};
    syncs.awaited_stream = {w.recording.strings.intern(std::to_string(process))};
    w.recording.devices = {"H100", std::to_string(process)};
    w.recording.host = "node";
    w.recording.base = base;
    return std::make_shared<const run::Recording>(std::move(w.recording));
  };
  const auto ranks = one_a_rank(std::vector{part(10, 1'000'000), part(20, 1'500'000)});
  REQUIRE(ranks.size() == 1);
  const run::Recording& whole = *ranks[0];
  CHECK(whole.devices == std::vector<std::string>{"H100", "10", "20"});
  REQUIRE(whole.syncs.size() == 2);
  CHECK(whole.syncs.start == std::vector<Ns>{3000, 503'000});
  CHECK(whole.syncs.lane[1] == whole.syncs.lane[0]);  // the device's stream
  CHECK(whole.syncs.correlation[1] == run::CorrelationId(1));
  CHECK_FALSE(whole.syncs.recorded[1]);
  CHECK(whole.text(whole.syncs.name[1]) == "Stream Wait Event 20");
  CHECK(whole.text(whole.syncs.awaited_stream[1]) == "20");
  REQUIRE(whole.memory.size() == 4);
  CHECK(whole.memory.time == std::vector<Ns>{5000, 6000, 505'000, 506'000});
  REQUIRE(whole.memory.lane[2]);
  CHECK(whole.text(whole.lanes[whole.memory.lane[2].row()].process) == "20");
  CHECK_FALSE(whole.memory.lane[3]);
  CHECK(whole.memory.total_allocated == std::vector<Bytes>{100, 300, 100, 300});
  CHECK(whole.memory.total_reserved == std::vector<Bytes>{200, 400, 200, 400});
}

}  // namespace foregather::rebuild
