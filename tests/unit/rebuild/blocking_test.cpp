// Calls in which the host waited for the device, or would have.
#include <catch2/catch.hpp>

#include "recordings.h"

namespace foregather::test {

namespace {

constexpr double kFourTimesAsLong = 0.25;
const run::LaneRow kHost(0), kStream(1);  // of idle()

// Two kernels of 50 µs; `call` between them, when the first one has long ended.
RecordingWriter idle(std::string_view call) {
  RecordingWriter w;
  const auto host = w.lane("1", "1"), stream = w.lane("0", "7");
  w.call(host, "cudaLaunchKernel", 0, 2, 0);
  w.call(host, call, 100, 102, 1);
  w.call(host, "cudaLaunchKernel", 110, 112, 2);
  w.kernel(stream, "gemm", 5, 55, 0);
  w.kernel(stream, "gemm", 115, 165, 2);
  return w;
}

// Its record by the tool: a wait of the host for a stream.
void add_record(RecordingWriter& w, run::LaneRow stream, std::uint32_t correlation) {
  run::SyncColumns& rows = w.recording.syncs;
  rows.lane.push_back(stream);
  rows.name.push_back(w.recording.strings.intern("Stream Sync"));
  rows.start.push_back(100 * kMicrosecond);
  rows.end.push_back(102 * kMicrosecond);
  rows.correlation.push_back(run::CorrelationId(correlation));
  rows.recorded.emplace_back();
  rows.awaited_stream.emplace_back();
}

}  // namespace

TEST_CASE("a synchronisation that found the device idle waits where the work takes longer") {
  for (const char* call :
       {"cudaDeviceSynchronize", "cuCtxSynchronize", "cudaStreamSynchronize_v3020"}) {
    CAPTURE(call);
    const auto step = rebuilt(idle(call).recording);
    CHECK(replayed(step.graph) == std::vector<Ns>{50, 160});
    // The first kernel ends 200 µs behind its start; 2 µs in the call and 8 behind it the second
    // one is launched, 5 µs before it starts.
    CHECK(replayed(step.graph, kFourTimesAsLong) == std::vector<Ns>{200, 415});
  }
  const auto step = rebuilt(idle("cudaEventQuery").recording);
  CHECK(replayed(step.graph, kFourTimesAsLong) == std::vector<Ns>{200, 401});
}

TEST_CASE("a synchronisation of an event waits for it if the thread has just recorded it") {
  RecordingWriter w = idle("cudaEventSynchronize");
  const auto alone = rebuilt(w.recording);
  CHECK(replayed(alone.graph, kFourTimesAsLong) == std::vector<Ns>{200, 401});
  w.call(kHost, "cudaEventRecord", 97, 99, 3);
  const auto step = rebuilt(w.recording);
  CHECK(replayed(step.graph, kFourTimesAsLong) == std::vector<Ns>{200, 415});
}

TEST_CASE("a stream's synchronisation is that of the stream which the tool names") {
  RecordingWriter w = idle("cudaStreamSynchronize");
  const auto other = w.lane("0", "20");
  w.call(kHost, "cudaLaunchKernel", 50, 52, 4);
  w.kernel(other, "gemm", 55, 95, 4);
  // Without a record it is the one that was launched last: 55 + 160 µs.
  CHECK(replayed(rebuilt(w.recording).graph, kFourTimesAsLong).back() == 425);
  add_record(w, kStream, 1);
  CHECK(replayed(rebuilt(w.recording).graph, kFourTimesAsLong).back() == 415);
}

TEST_CASE("a launch that took long behind a full queue waits for a place in it") {
  constexpr int kKernels = 1000, kQueue = 600;
  RecordingWriter w;
  const auto host = w.lane("1", "1"), stream = w.lane("0", "7");
  Ns now = 0;
  std::vector<Ns> ends;
  for (std::uint32_t i = 0; i < kKernels; ++i) {
    const Ns called = now;
    if (i >= kQueue) now = std::max(now, ends[i - kQueue]);
    now += 3;
    const Ns start = i == 0 ? 5 : ends.back() + 1;
    w.call(host, "cudaLaunchKernel", called, now, i);
    w.kernel(stream, "gemm", start, start + 100, i);
    ends.push_back(start + 100);
    now += 2;
  }
  const auto step = rebuilt(w.recording);
  CHECK(replayed(step.graph).back() == 101 * kKernels - 1);
  // The device bounds it until the host does, which takes 5 µs a kernel.
  CHECK(replayed(step.graph, 10).back() == 11 * kKernels - 1);
  CHECK(replayed(step.graph, 100).back() < 6 * kKernels);
  // A long launch behind few others is the host's.
  RecordingWriter few;
  const auto thread = few.lane("1", "1"), lane = few.lane("0", "7");
  few.call(thread, "cudaLaunchKernel", 0, 2, 0);
  few.call(thread, "cudaLaunchKernel", 4, 110, 1);
  few.kernel(lane, "gemm", 5, 55, 0);
  few.kernel(lane, "gemm", 115, 125, 1);
  CHECK(replayed(rebuilt(few.recording).graph, 10).back() > 100);
}

TEST_CASE("a call that gave memory back when the device was done waited for that") {
  // It begins at 10; the second kernel is launched at 600.
  const auto recorded = [](std::string_view call, Ns end) {
    RecordingWriter w;
    const auto host = w.lane("1", "1"), stream = w.lane("0", "7");
    w.call(host, "cudaLaunchKernel", 0, 2, 0);
    w.call(host, call, 10, end, 1);
    w.call(host, "cudaLaunchKernel", 600, 602, 2);
    w.kernel(stream, "gemm", 5, 505, 0);
    w.kernel(stream, "gemm", 605, 705, 2);
    return rebuilt(w.recording);
  };
  for (const char* call :
       {"cudaFree", "cudaFreeHost", "cudaHostAlloc", "cuMemFree_v2", "cuMemUnmap", "cudaMemcpy"}) {
    CAPTURE(call);
    const auto step = recorded(call, 508);
    CHECK(replayed(step.graph) == std::vector<Ns>{500, 700});
    // The kernel and what follows are 250 µs earlier, the second kernel takes 50 less.
    CHECK(replayed(step.graph, 2) == std::vector<Ns>{250, 400});
  }
  const std::vector<Ns> of_host{250, 650};
  for (const char* call : {"cudaFreeAsync", "cudaMalloc"})  // neither waits
    CHECK(replayed(recorded(call, 508).graph, 2) == of_host);
  // It returned before the kernel had ended, so it waited for nothing.
  CHECK(replayed(recorded("cudaFree", 300).graph, 2) == of_host);
}

TEST_CASE("a wait for an event is not that of a stream which was not held back") {
  // FSDP1: the compute stream waits for a gather, the next gather is launched, then compute.
  RecordingWriter w;
  const auto host = w.lane("1", "1"), compute = w.lane("0", "7"), gathers = w.lane("0", "20");
  std::uint32_t correlation = 0;
  const auto launch = [&](Ns at, run::LaneRow stream, Ns start, Ns end) {
    w.call(host, "cudaLaunchKernel", at, at + 1, correlation);
    w.kernel(stream, stream == compute ? "gemm" : "ncclDevKernel_AllGather", start, end,
             correlation++);
  };
  const auto wait = [&](Ns at) {
    w.call(host, "cudaEventRecord", at, at + 1, correlation++);
    w.call(host, "cudaStreamWaitEvent", at + 2, at + 3, correlation++);
  };
  launch(0, gathers, 5, 15);
  wait(5);
  launch(10, gathers, 16, 26);
  launch(15, compute, 20, 120);
  wait(20);
  launch(25, gathers, 30, 40);
  launch(30, compute, 121, 221);
  const auto step = rebuilt(w.recording);
  CHECK(step.ranks[0].inferred_deps == 2);
  // Twenty times as slow each kernel waits for its own gather, as far behind it as recorded.
  const std::vector<Ns> ends = replayed(step.graph, 1, 0.05);
  CHECK(ends == std::vector<Ns>{200, 401, 305, 605, 502});
}

}  // namespace foregather::test
