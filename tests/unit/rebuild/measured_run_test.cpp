#include <catch2/catch.hpp>

#include "recordings.h"
#include "core/compare/critical_path.h"
#include "core/rebuild/job.h"
#include "core/rebuild/measured_run.h"

namespace foregather::test {

TEST_CASE("a measured run has the steps, times and causes of its recording") {
  RecordingWriter w;
  const auto host = w.lane("1", "1"), stream = w.lane("0", "7");
  w.range(host, "ProfilerStep#4", 1000, 1020);
  w.range(host, "ProfilerStep#5", 1020, 1050);
  w.call(host, "cudaLaunchKernel", 1010, 1015, 0);
  w.call(host, "cudaLaunchKernel", 1016, 1018, 1);
  w.call(host, "cudaLaunchKernel", 1030, 1035, 2);
  w.kernel(stream, "some_gemm", 1060, 1160, 0);
  w.kernel(stream, "some_gemm", 1161, 1171, 1);
  w.kernel(stream, "ncclDevKernel_AllGather", 1180, 1200, 2);
  w.recording.rank = 3;
  const run::Recording* const one = &w.recording;
  const auto measured = rebuild::measured_run({&one, 1}, {});
  REQUIRE(measured);
  const run::Run& run = measured->run;
  CHECK(run.about.kind == run::RunKind::measured);
  CHECK(run.about.world_size == 4);
  REQUIRE(run.classes.size() == 1);
  CHECK(run.classes[0].ranks == std::vector<std::uint32_t>{3});
  REQUIRE(run.steps.size() == 2);
  CHECK(run.steps[0].number == 4);
  CHECK(run.steps[0].begin == 0);
  CHECK(run.steps[0].end == 111 * kMicrosecond);
  CHECK(run.steps[1].begin == 120 * kMicrosecond);
  REQUIRE(run.ops.size() == 3);
  CHECK(run.text_of(run.ops.source[0]) == "some_gemm");
  CHECK(run.ops.kind[0] == OpKind::gemm);
  CHECK(run.ops.ordinal[1] == 1);
  CHECK(run.ops.reason[1] == run::BoundReason::stream);
  CHECK(run.ops.bound_by[1] == run::OpRow(0));
  CHECK(run.ops.kind[2] == OpKind::all_gather);
  CHECK(run.ops.communicator[2]);
  CHECK(run.ops.end[2] == 140 * kMicrosecond);
  CHECK(measured->warnings.empty());
}

TEST_CASE("a step that launched nothing is an error, not all of the recording") {
  RecordingWriter w;
  const auto host = w.lane("1", "1"), stream = w.lane("0", "7");
  w.range(host, "ProfilerStep#4", 1000, 1020);
  w.range(host, "ProfilerStep#5", 1020, 1050);
  w.call(host, "cudaLaunchKernel", 1010, 1015, 0);
  w.kernel(stream, "some_gemm", 1060, 1160, 0);
  const run::Recording* const one = &w.recording;
  CHECK(rebuild::measured_run({&one, 1}, 4).has_value());
  const auto none = rebuild::measured_run({&one, 1}, 5);
  REQUIRE_FALSE(none);
  CHECK(none.error().message.starts_with("has no device work in step 5"));
}

TEST_CASE("a host-only recording of years is a range whose time is damaged") {
  constexpr Ns kYear = 31'536'000'000'000;  // in microseconds
  for (const bool is_damaged : {false, true}) {
    RecordingWriter w;
    w.recording.host = "node0";
    const auto host = w.lane("1", "1");
    w.range(host, "forward", 0, 10);
    w.range(host, "backward", 10, is_damaged ? kYear : 30);
    const run::Recording* const one = &w.recording;
    const auto measured = rebuild::measured_run({&one, 1}, {});
    REQUIRE(measured.has_value() == !is_damaged);
    if (is_damaged)
      CHECK(measured.error().text().find("expected at most 30 days") != std::string::npos);
  }
}

TEST_CASE("a step's memory is what its host did, which runs ahead") {
  RecordingWriter w;
  const auto host = w.lane("1", "1"), stream = w.lane("0", "7");
  w.range(host, "ProfilerStep#1", 0, 10);
  w.range(host, "ProfilerStep#2", 10, 20);
  w.call(host, "cudaLaunchKernel", 5, 6, 0);
  w.call(host, "cudaLaunchKernel", 15, 16, 1);
  w.kernel(stream, "some_gemm", 12, 40, 0);
  w.kernel(stream, "some_gemm", 40, 50, 1);
  w.memory(host, 4, 700, 2000);
  w.memory(host, 14, 900, 3000);
  const run::Recording* const one = &w.recording;
  const auto measured = rebuild::measured_run({&one, 1}, {});
  REQUIRE(measured);
  REQUIRE(measured->run.steps.size() == 2);
  CHECK(measured->run.steps[0].peak_allocated == 700);
  CHECK(measured->run.steps[1].peak_allocated == 900);
  CHECK(measured->run.steps[1].peak_reserved == 3000);
  CHECK(measured->run.memory.size() == 2);
}

TEST_CASE("what a recording calls a collective counts where its kernel does not say") {
  RecordingWriter w;
  const auto host = w.lane("1", "1"), stream = w.lane("0", "7");
  const char* const said[] = {"_allgather_base", "alltoall_base", "recvAnySource", "wait"};
  for (std::uint32_t i = 0; i < 4; ++i) {
    w.call(host, "cudaLaunchKernel", 10 * i, 10 * i + 5, i);
    w.kernel(stream, "ncclDevKernel_SendRecv", 10 * i + 6, 10 * i + 9, i);
    w.describe(i, "0", 4, i, 100);
    w.recording.collectives.back().name = w.recording.strings.intern(said[i]);
  }
  w.call(host, "cudaLaunchKernel", 50, 55, 4);
  w.kernel(stream, "ncclDevKernel_AllReduce", 56, 59, 4);
  w.describe(4, "0", 4, 4, 100);
  w.recording.collectives.back().name = w.recording.strings.intern("_allgather_base");
  const run::Recording* const one = &w.recording;
  const auto measured = rebuild::measured_run({&one, 1}, {});
  REQUIRE(measured);
  const std::vector<OpKind> kinds(measured->run.ops.kind.begin(), measured->run.ops.kind.end());
  CHECK(kinds == std::vector{OpKind::all_gather, OpKind::all_to_all, OpKind::send_recv,
                             OpKind::send_recv, OpKind::all_reduce});
}

TEST_CASE("recordings that name no rank take the numbers that are left") {
  RecordingWriter a, b, c;
  a.recording.rank = 3;
  c.recording.rank = 0;
  const run::Recording* const all[] = {&a.recording, &b.recording, &c.recording};
  CHECK(rebuild::ranks_of(all).value() == std::vector<std::uint32_t>{3, 1, 0});
  b.recording.rank = 3;
  CHECK_FALSE(rebuild::ranks_of(all).has_value());
}

TEST_CASE("what waits for its launch is bound by what the host waited for before") {
  RecordingWriter w;
  const auto host = w.lane("1", "1"), stream = w.lane("0", "7");
  w.call(host, "cudaLaunchKernel", 0, 5, 0);
  w.call(host, "cudaStreamSynchronize", 6, 111, 1);
  w.call(host, "cudaLaunchKernel", 200, 205, 2);
  w.kernel(stream, "long_gemm", 10, 110, 0);
  w.kernel(stream, "some_gemm", 208, 218, 2);
  const run::Recording* const one = &w.recording;
  const auto measured = rebuild::measured_run({&one, 1}, {});
  REQUIRE(measured);
  const run::Run& run = measured->run;
  REQUIRE(run.ops.size() == 2);
  CHECK(run.ops.reason[1] == run::BoundReason::host);
  CHECK(run.ops.bound_by[1] == run::OpRow(0));
  const compare::CriticalPath path = compare::critical_path(run, run::StepRow(0));
  CHECK(path.steps.size() == 2);
  CHECK(path.compute == 110 * kMicrosecond);
  CHECK(path.host == 98 * kMicrosecond);
}

TEST_CASE("a launch in front of the first device work has the time that was recorded") {
  RecordingWriter w;
  const auto host = w.lane("1", "1"), stream = w.lane("0", "7");
  w.call(host, "cudaLaunchKernel", 0, 5, 0);
  w.call(host, "cudaLaunchKernel", 10, 15, 1);
  w.kernel(stream, "gemm", 1000, 1100, 0);
  w.kernel(stream, "gemm", 1101, 1201, 1);
  const run::Recording* const one = &w.recording;
  const auto measured = rebuild::measured_run({&one, 1}, {});
  REQUIRE(measured);
  CHECK(measured->run.ops.start[0] == 0);
  CHECK(measured->run.ops.issued[0] == -1000 * kMicrosecond);
  CHECK(measured->run.ops.issued[1] == -990 * kMicrosecond);
}

TEST_CASE("a process that computes on two devices is said to be taken for one") {
  const auto warnings = [](std::string_view kernel) {
    RecordingWriter w;
    const auto first = w.lane("0", "7"), second = w.lane("1", "7");
    w.kernel(first, "gemm", 0, 100);
    w.kernel(second, kernel, 50, 150);
    const run::Recording* const one = &w.recording;
    const auto measured = rebuild::measured_run({&one, 1}, {});
    REQUIRE(measured);
    const rebuild::Rebuilt step = rebuilt(w.recording);
    CHECK(step.warnings == measured->warnings);
    return step.warnings;
  };
  CHECK(warnings("Memcpy PtoP").empty());
  REQUIRE(warnings("gemm").size() == 1);
  CHECK_THAT(warnings("gemm")[0], Catch::Contains("one process drives 2 devices"));
}

TEST_CASE("numbers of one execution are no part of a scope, and calls are kept") {
  RecordingWriter w;
  const auto host = w.lane("1", "1"), stream = w.lane("0", "7");
  w.range(host, "aten::mul, seq = 48289, op_id = 1002103, sizes = [[2]]", 1000, 1020);
  w.call(host, "cudaLaunchKernel", 1010, 1015, 0);
  w.kernel(stream, "mul", 1060, 1160, 0);
  const run::Recording* const one = &w.recording;
  const auto measured = rebuild::measured_run({&one, 1}, {});
  REQUIRE(measured);
  const run::Run& run = measured->run;
  CHECK(run.text_of(run.ops.scope[0]) == "aten::mul");
  REQUIRE(run.ops.launch[0]);
  const run::HostCallRecord& call = run.calls[run.ops.launch[0].row()];
  CHECK(run.text_of(call.name) == "cudaLaunchKernel");
  CHECK(call.start == -50 * kMicrosecond);
  CHECK(run.text_of(run.threads[call.thread.row()].process) == "1");
}

TEST_CASE("ops of a measured run have scope and phase of the ranges around their launch") {
  RecordingWriter w;
  const auto host = w.lane("1", "1"), stream = w.lane("0", "7");
  w.range(host, "layers.0.mlp/forward", 0, 20);
  w.call(host, "cudaLaunchKernel", 10, 12, 0);
  w.range(host, "layers.0.mlp/backward", 30, 60);
  w.range(host, "FSDP::all_gather (layers.1)", 40, 50);
  w.call(host, "cudaLaunchKernel", 32, 34, 1);
  w.call(host, "cudaLaunchKernel", 42, 44, 2);
  w.kernel(stream, "some_gemm", 20, 30, 0);
  w.kernel(stream, "some_gemm", 40, 50, 1);
  w.kernel(stream, "ncclDevKernel_AllGather", 60, 70, 2);
  const run::Recording* const one = &w.recording;
  const auto measured = rebuild::measured_run({&one, 1}, {});
  REQUIRE(measured);
  const run::RunView run = measured->run;
  std::vector<std::string> keys;
  for (std::size_t op = 0; op < run.ops.size(); ++op)
    keys.push_back(std::string(run.text_of(run.ops.scope[op])) + " " +
                   std::string(name(run.ops.phase[op])));
  CHECK(keys == std::vector<std::string>{"layers.0.mlp forward", "layers.0.mlp backward",
                                         "layers.1 backward"});
}

TEST_CASE("ranks that know the epoch share a clock") {
  RecordingWriter a, b;
  a.kernel(a.lane("0", "7"), "x", 100, 110);
  b.kernel(b.lane("0", "7"), "x", 40, 60);
  a.recording.rank = 0;
  b.recording.rank = 1;
  a.recording.base = 1'000'000'000'000;
  b.recording.base = 1'000'000'000'000 + 65 * kMicrosecond;
  const std::array both{static_cast<const run::Recording*>(&a.recording),
                        static_cast<const run::Recording*>(&b.recording)};
  const auto measured = rebuild::measured_run(both, {});
  REQUIRE(measured);
  CHECK(measured->run.ops.start[0] == 0);
  CHECK(measured->run.ops.start[1] == 5 * kMicrosecond);
  a.recording.base = 0;
  const auto apart = rebuild::measured_run(both, {});
  REQUIRE(apart);
  CHECK(apart->run.ops.start[1] == 0);
}

TEST_CASE("two recordings of one rank are refused") {
  RecordingWriter a;
  a.kernel(a.lane("0", "7"), "x", 100, 110);
  a.recording.rank = 2;
  a.recording.source = "b.json";
  const std::array both{static_cast<const run::Recording*>(&a.recording),
                        static_cast<const run::Recording*>(&a.recording)};
  const auto measured = rebuild::measured_run(both, {});
  REQUIRE(!measured);
  CHECK(measured.error().text() == "b.json: is of rank 2, as another file is: expected one a rank");
}

}  // namespace foregather::test
