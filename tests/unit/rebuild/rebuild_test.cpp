#include <catch2/catch.hpp>

#include "recordings.h"
#include "core/rebuild/measured_run.h"

namespace foregather::test {

TEST_CASE("a recording before the clock's zero has its length") {
  RecordingWriter w;
  const auto stream = w.lane("0", "7");
  w.kernel(stream, "a", -1000, -910);
  w.kernel(stream, "b", -800, -710);
  CHECK(rebuilt(w.recording).ranks[0].measured == 290 * kMicrosecond);
}

TEST_CASE("an op of a rebuilt recording waits for its launch and for its stream") {
  RecordingWriter w;
  const auto host = w.lane("1", "1"), stream = w.lane("0", "7");
  w.call(host, "cudaLaunchKernel", 0, 10, 0);
  w.call(host, "cudaLaunchKernel", 20, 30, 1);
  w.call(host, "cudaLaunchKernel", 400, 410, 2);
  w.kernel(stream, "gemm", 5, 105, 0);
  w.kernel(stream, "gemm", 107, 207, 1);  // behind the first one, 2 µs later
  w.kernel(stream, "gemm", 405, 505, 2);  // 5 µs behind its launch
  const auto step = rebuilt(w.recording);
  CHECK(step.ranks[0].measured == 500 * kMicrosecond);
  CHECK(step.ranks[0].unexplained == 0);
  CHECK(step.ranks[0].pinned == 0);
  CHECK(replayed(step.graph) == std::vector<Ns>{100, 202, 500});
  // Half as long: the first two follow each other, the last one still waits for its launch.
  CHECK(replayed(step.graph, 2) == std::vector<Ns>{50, 102, 450});
  // Three times as long: the stream is busy when the last one is launched, so that one is as far
  // behind it as others are behind theirs, and not as far as it was behind its launch.
  CHECK(replayed(step.graph, 1.0 / 3) == std::vector<Ns>{300, 602, 904});
}

TEST_CASE("launch latency ends with the host's bound") {
  RecordingWriter w;
  const auto host = w.lane("1", "1"), stream = w.lane("0", "7");
  constexpr int kKernels = 100;
  for (std::uint32_t i = 0; i < kKernels; ++i) {
    w.call(host, "cudaLaunchKernel", 20 * i, 20 * i + 5, i);
    w.kernel(stream, "gemm", 20 * i + 8, 20 * i + 13, i);
  }
  auto step = rebuilt(w.recording);
  CHECK(step.ranks[0].unexplained == 0);
  CHECK(replayed(step.graph).back() == 20 * (kKernels - 1) + 5);
  without_host_time(step.graph);
  // The second one 8 µs behind its launch. No gap was recorded: the others 1 µs behind each other.
  CHECK(replayed(step.graph).back() == 8 + 6 * (kKernels - 1) - 1);
}

TEST_CASE("an op that its stream held back waits for a later launch as others do") {
  RecordingWriter w;
  const auto host = w.lane("1", "1"), stream = w.lane("0", "7");
  w.call(host, "cudaLaunchKernel", 0, 5, 0);
  w.call(host, "cudaLaunchKernel", 20, 25, 1);
  w.call(host, "cudaLaunchKernel", 300, 305, 2);
  w.kernel(stream, "gemm", 8, 108, 0);
  w.kernel(stream, "gemm", 109, 209, 1);
  w.kernel(stream, "gemm", 308, 408, 2);
  const auto step = rebuilt(w.recording);
  // A hundred times as fast: 8 µs behind each launch, as the last one was.
  CHECK(replayed(step.graph, 100) == std::vector<Ns>{1, 21, 301});
}

TEST_CASE("what passes in a call before its op begins is the host's time") {
  RecordingWriter w;
  const auto host = w.lane("1", "1"), stream = w.lane("0", "7");
  w.call(host, "cudaLaunchKernel", 0, 5, 0);
  w.call(host, "cudaLaunchKernel", 20, 3020, 1);  // loads a module
  w.kernel(stream, "gemm", 8, 18, 0);
  w.kernel(stream, "gemm", 3010, 3110, 1);
  auto step = rebuilt(w.recording);
  CHECK(step.ranks[0].unexplained == 0);
  CHECK(replayed(step.graph) == std::vector<Ns>{10, 3102});
  without_host_time(step.graph);
  CHECK(replayed(step.graph) == std::vector<Ns>{10, 111});
}

TEST_CASE("a recording of years is an event whose time is damaged") {
  RecordingWriter w;
  const auto host = w.lane("1", "1"), stream = w.lane("0", "7");
  constexpr Ns kYear = 31'536'000'000'000;  // in microseconds
  w.call(host, "cudaLaunchKernel", 0, 10, 0);
  w.call(host, "cudaLaunchKernel", kYear, kYear + 10, 1);
  w.kernel(stream, "gemm", 5, 105, 0);
  w.kernel(stream, "gemm", kYear + 5, kYear + 105, 1);
  const run::Recording* const one = &w.recording;
  const auto refused = rebuild::rebuild({&one, 1}, {});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().text().find("expected at most 30 days") != std::string::npos);
  const auto not_written = rebuild::measured_run({&one, 1}, {});
  REQUIRE_FALSE(not_written.has_value());
  CHECK(not_written.error().text() == refused.error().text());
}

TEST_CASE("a call of years is one whose time is damaged") {
  RecordingWriter w;
  const auto host = w.lane("1", "1"), stream = w.lane("0", "7");
  constexpr Ns kYear = 31'536'000'000'000;  // in microseconds
  w.call(host, "cudaMemsetAsync", 0, kYear, 0);
  w.call(host, "cudaLaunchKernel", 10, 15, 1);
  w.kernel(stream, "gemm", 20, 105, 1);
  const run::Recording* const one = &w.recording;
  const auto refused = rebuild::rebuild({&one, 1}, {});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().text().find("in a cudaMemsetAsync, expected at most 30 days") !=
        std::string::npos);
}

TEST_CASE("a kernel that begins while the one before it runs out stays behind that") {
  RecordingWriter w;
  const auto host = w.lane("1", "1"), stream = w.lane("0", "7");
  for (std::uint32_t i = 0; i < 4; ++i) {
    w.call(host, "cudaLaunchKernelExC", 2 * i, 2 * i + 1, i);
    w.kernel(stream, "gemm", 10 + 96 * i, 110 + 96 * i, i);
  }
  const auto step = rebuilt(w.recording);
  CHECK(step.ranks[0].streams == 1);
  CHECK(replayed(step.graph) == std::vector<Ns>{100, 196, 292, 388});
  CHECK(replayed(step.graph, 2).back() == 194);
}

TEST_CASE("a kernel that runs beside most of another one has a stream of its own") {
  RecordingWriter w;
  const auto host = w.lane("1", "1"), stream = w.lane("0", "7");
  w.call(host, "cudaLaunchKernel", 0, 1, 0);
  w.call(host, "cudaLaunchKernel", 2, 3, 1);
  w.kernel(stream, "gemm", 10, 110, 0);
  w.kernel(stream, "gemm", 40, 130, 1);
  CHECK(rebuilt(w.recording).ranks[0].streams == 2);
}

TEST_CASE("recorded waits reach back before the first op") {
  RecordingWriter w;
  const auto host = w.lane("1", "1"), compute = w.lane("0", "7"), comm = w.lane("0", "9");
  w.call(host, "cudaLaunchKernel", -40, -35, 0);
  w.call(host, "cudaEventRecord", -34, -33, 1);
  w.call(host, "cudaLaunchKernel", -32, -30, 2);
  w.call(host, "cudaLaunchKernel", -28, -26, 3);
  w.call(host, "cudaStreamWaitEvent", -24, -22, 4);
  w.call(host, "cudaLaunchKernel", -20, -18, 5);
  w.kernel(compute, "gemm", 0, 100, 0);
  w.kernel(compute, "gemm", 101, 110, 2);
  w.kernel(comm, "gemm", 10, 20, 3);
  w.kernel(comm, "gemm", 140, 240, 5);
  SECTION("by the tool's records") {
    run::SyncColumns& rows = w.recording.syncs;
    rows.lane.push_back(comm);
    rows.name.emplace_back();
    rows.start.push_back(-24 * kMicrosecond);
    rows.end.push_back(-22 * kMicrosecond);
    rows.awaited_stream.push_back(w.recording.lanes[compute.row()].thread);
    rows.correlation.emplace_back(4);
    rows.recorded.emplace_back(1);
    const auto step = rebuilt(w.recording);
    CHECK(step.ranks[0].recorded_deps == 1);
    // The op behind the wait follows the one before the record, 40 µs later, and no other does.
    CHECK(replayed(step.graph, 0.1) == std::vector<Ns>{1000, 110, 1091, 2040});
  }
  SECTION("by calls") {
    const auto step = rebuilt(w.recording);
    CHECK(step.ranks[0].inferred_deps == 1);
    CHECK(replayed(step.graph, 0.1) == std::vector<Ns>{1000, 110, 1091, 2040});
  }
}

TEST_CASE("calls that wait for events order streams") {
  RecordingWriter w;
  const auto host = w.lane("1", "1"), compute = w.lane("0", "7"), comm = w.lane("0", "20");
  w.call(host, "cudaLaunchKernel", 0, 5, 0);
  w.call(host, "cudaEventRecord", 6, 7, 1);
  w.call(host, "cudaStreamWaitEvent", 8, 9, 2);
  w.call(host, "cudaLaunchKernelExC", 10, 15, 3);
  w.call(host, "cudaLaunchKernel", 20, 25, 4);
  w.call(host, "cudaEventRecord", 26, 27, 5);
  w.call(host, "cudaStreamWaitEvent", 28, 29, 6);
  w.call(host, "cudaLaunchKernel", 30, 35, 7);
  w.kernel(compute, "gemm", 5, 105, 0);
  w.kernel(comm, "ncclDevKernel_AllReduce_Sum_f32", 107, 307, 3);
  w.kernel(compute, "gemm", 106, 206, 4);
  w.kernel(compute, "gemm", 309, 319, 7);
  const auto step = rebuilt(w.recording);
  CHECK(step.ranks[0].inferred_deps == 2);
  CHECK(step.ranks[0].unexplained == 0);
  // By start: gemm, gemm, all-reduce, gemm.
  CHECK(replayed(step.graph) == std::vector<Ns>{100, 201, 302, 314});
  CHECK(replayed(step.graph, 1, 0.5) == std::vector<Ns>{100, 201, 502, 514});
  CHECK(replayed(step.graph, 1, 4) == std::vector<Ns>{100, 201, 152, 213});
}

TEST_CASE("ops that overlap on one stream stay side by side") {
  RecordingWriter w;
  const auto host = w.lane("1", "1"), stream = w.lane("0", "7");
  w.call(host, "cudaLaunchKernel", 0, 1, 0);
  w.call(host, "cudaLaunchKernel", 2, 3, 1);
  w.call(host, "cudaLaunchKernel", 4, 5, 2);
  w.kernel(stream, "gemm", 5, 105, 0);
  w.kernel(stream, "gemm", 50, 150, 1);
  w.kernel(stream, "gemm", 104, 204, 2);  // one microsecond: how the times were rounded
  const auto step = rebuilt(w.recording);
  CHECK(step.ranks[0].streams == 2);
  CHECK(replayed(step.graph) == std::vector<Ns>{100, 145, 199});
}

TEST_CASE("launches that a clock far ahead leaves out are named") {
  const auto warnings = [](Ns ahead) {
    RecordingWriter w;
    const auto host = w.lane("1", "1"), stream = w.lane("0", "7");
    for (std::uint32_t i = 0; i < 3; ++i) {
      w.call(host, "cudaLaunchKernel", ahead + 10 * i, ahead + 10 * i + 5, i);
      w.kernel(stream, "gemm", 100 * i + 20, 100 * i + 90, i);
    }
    return rebuilt(w.recording).warnings;
  };
  CHECK(warnings(0).empty());
  CHECK(warnings(900).empty());
  REQUIRE(warnings(3000).size() == 1);
  CHECK(warnings(3000).front().find("3 of 3 ops begin more than 1 ms") != std::string::npos);
}

TEST_CASE("a short wait does not hide what another one leaves unexplained") {
  RecordingWriter w;
  const auto stream = w.lane("0", "7"), other = w.lane("0", "9");
  w.kernel(other, "gemm", 0, 100);
  w.kernel(stream, "gemm", 0, 480);
  w.kernel(stream, "gemm", 490, 495);   // 5 µs of 10 are not usual
  w.kernel(other, "gemm", 1100, 1200);  // from 105 on
  CHECK(rebuilt(w.recording).ranks[0].unexplained == 995 * kMicrosecond);
}

TEST_CASE("work that nothing recorded explains waits as long as it did") {
  RecordingWriter w;
  const auto stream = w.lane("0", "7"), other = w.lane("0", "9");
  w.kernel(stream, "gemm", 0, 100);
  w.kernel(stream, "gemm", 400, 500);
  w.kernel(other, "gemm", 150, 250);
  const auto step = rebuilt(w.recording);
  CHECK(step.ranks[0].pinned == 1);  // the first one of the other stream
  // 0 to 150 on that one, 105 to 400 on the first.
  CHECK(step.ranks[0].unexplained == 400 * kMicrosecond);
  CHECK(replayed(step.graph) == std::vector<Ns>{100, 250, 500});
  CHECK(replayed(step.graph, 2) == std::vector<Ns>{50, 200, 400});
}

TEST_CASE("a step of a recording is what was launched in it") {
  RecordingWriter w;
  const auto host = w.lane("1", "1"), stream = w.lane("0", "7");
  w.range(host, "ProfilerStep#4", 0, 20);
  w.range(host, "ProfilerStep#5", 20, 50);
  w.call(host, "cudaLaunchKernel", 10, 15, 0);
  w.call(host, "cudaLaunchKernel", 30, 35, 1);
  w.kernel(stream, "gemm", 60, 160, 0);
  w.kernel(stream, "gemm", 161, 171, 1);
  CHECK(rebuilt(w.recording, 4).ranks[0].measured == 100 * kMicrosecond);
  CHECK(rebuilt(w.recording, 5).ranks[0].measured == 10 * kMicrosecond);
  const run::Recording* const one = &w.recording;
  const auto wrong = rebuild::rebuild({&one, 1}, {6});
  REQUIRE(!wrong);
  CHECK(wrong.error().message == "has no step 6, expected one of 4, 5");
}

TEST_CASE("copies to a shorter dtype are casts, to that dtype") {
  RecordingWriter w;
  const auto stream = w.lane("0", "7");
  w.kernel(stream, "void at::native::elementwise_kernel<at::native::bfloat16_copy_kernel_cuda>", 0,
           9);
  w.kernel(stream, "void at::native::elementwise_kernel<at::native::float16_copy_kernel_cuda>", 9,
           18);
  w.kernel(stream, "void at::native::elementwise_kernel<at::native::direct_copy_kernel_cuda>", 18,
           27);
  const Graph graph = rebuilt(w.recording).graph;
  REQUIRE(graph.ops.size() == 3);
  CHECK(graph.ops[0].kind == OpKind::cast);
  CHECK(graph.at(graph.ops[0].cost).dtype == DType::bf16);
  CHECK(graph.ops[1].kind == OpKind::cast);
  CHECK(graph.at(graph.ops[1].cost).dtype == DType::f16);
  CHECK(graph.ops[2].kind == OpKind::copy);
}

TEST_CASE("what ops usually take: like kernels have as many threads, unsaid messages no like") {
  RecordingWriter w;
  const auto stream = w.lane("0", "7");
  w.kernel(stream, "gemm", 0, 10);
  w.kernel(stream, "gemm", 10, 40);
  w.kernel(stream, "gemm", 40, 60);
  w.kernel(stream, "ncclDevKernel_SendRecv", 60, 80);
  w.kernel(stream, "ncclDevKernel_SendRecv", 80, 180);
  w.recording.activities.threads = {128, 256, 128, 512, 512};
  const run::Recording* const recording = &w.recording;
  const auto rebuilt = rebuild::rebuild(std::span(&recording, 1), {});
  REQUIRE(rebuilt);
  std::vector<Ns> usual;
  for (const Op& op : rebuilt->graph.ops)
    usual.push_back(rebuilt->graph.at(op.cost).usual_time.value_or(-1) / 1000);
  CHECK(usual == std::vector<Ns>{15, 30, 15, 20, 100});
}

}  // namespace foregather::test
