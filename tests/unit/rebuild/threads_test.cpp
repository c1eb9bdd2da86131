// Host threads of rebuilt recordings: what launches, what waits, and in which order.
#include <algorithm>
#include <catch2/catch.hpp>

#include "recordings.h"

namespace foregather::test {

TEST_CASE("threads that share a stream during a long call do not wait for its end") {
  RecordingWriter w;
  const auto main = w.lane("1", "1"), other = w.lane("1", "2");
  const auto stream = w.lane("0", "7"), second = w.lane("0", "9");
  w.call(main, "cudaLaunchKernel", 0, 5, 0);
  w.call(main, "cudaLaunchKernel", 50, 950, 1);  // loads a module
  w.call(other, "cudaLaunchKernel", 100, 105, 2);
  w.call(other, "cudaLaunchKernel", 120, 125, 3);
  w.kernel(stream, "gemm", 0, 10, 0);
  w.kernel(second, "gemm", 128, 628, 3);
  SECTION("that launched before it") {
    w.kernel(stream, "gemm", 108, 208, 2);
    w.kernel(stream, "gemm", 940, 980, 1);
    auto step = rebuilt(w.recording);
    CHECK(replayed(step.graph) == std::vector<Ns>{10, 208, 628, 980});
  }
  SECTION("that launched behind it") {
    w.kernel(stream, "gemm", 90, 108, 1);
    w.kernel(stream, "gemm", 109, 209, 2);
    auto step = rebuilt(w.recording);
    CHECK(replayed(step.graph) == std::vector<Ns>{10, 108, 209, 628});
  }
}

TEST_CASE("a synchronisation of the host moves with the work that it waited for") {
  RecordingWriter w;
  const auto host = w.lane("1", "1"), stream = w.lane("0", "7");
  w.call(host, "cudaLaunchKernel", 0, 5, 0);
  w.call(host, "cudaDeviceSynchronize", 10, 112, 1);
  w.call(host, "cudaLaunchKernel", 120, 125, 2);
  w.kernel(stream, "gemm", 5, 105, 0);
  w.kernel(stream, "gemm", 130, 140, 2);
  const auto step = rebuilt(w.recording);
  CHECK(replayed(step.graph) == std::vector<Ns>{100, 135});
  // The host goes on 50 µs earlier; its own 7 + 8 µs and the launch's 10 stay.
  CHECK(replayed(step.graph, 2) == std::vector<Ns>{50, 80});
}

TEST_CASE("a synchronisation before the first op waits for what others launched") {
  const bool has_record = GENERATE(false, true);
  const char* const sync =
      GENERATE("cudaStreamSynchronize", "cudaEventSynchronize", "cudaDeviceSynchronize");
  CAPTURE(has_record, sync);
  RecordingWriter w;
  const auto host = w.lane("1", "1"), other = w.lane("1", "2");
  const auto stream = w.lane("0", "7"), side = w.lane("0", "9");
  if (has_record) w.call(host, "cudaLaunchKernel", -30, -25, 4);
  w.call(host, "cudaLaunchKernel", -20, -15, 0);
  if (has_record) w.call(other, "cudaLaunchKernel", -18, -16, 3);
  w.call(host, sync, -10, 502, 1);
  w.call(host, "cudaLaunchKernel", 508, 513, 2);
  w.kernel(stream, "gemm", 0, 100);
  w.kernel(side, "gemm", 1, 500);
  if (has_record)
    w.recording.activities.correlation = {run::CorrelationId(4), run::CorrelationId(3)};
  w.kernel(stream, "gemm", 101, 110, 0);
  w.kernel(stream, "gemm", 516, 600, 2);
  const auto step = rebuilt(w.recording);
  CHECK(replayed(step.graph) == std::vector<Ns>{100, 500, 110, 600});
}

TEST_CASE("a synchronisation before the first op waits for nothing that is launched after it") {
  const Ns launch = GENERATE(-18, -5);
  CAPTURE(launch);
  RecordingWriter w;
  const auto host = w.lane("1", "1"), other = w.lane("1", "2");
  const auto stream = w.lane("0", "7"), side = w.lane("0", "9");
  w.call(host, "cudaLaunchKernel", -30, -25, 0);
  w.call(other, "cudaLaunchKernel", launch, launch + 2, 1);
  w.call(host, "cudaStreamSynchronize", -10, 502, 2);
  w.call(host, "cudaLaunchKernel", 508, 513, 3);
  w.kernel(stream, "gemm", 0, 500, 0);
  w.kernel(side, "gemm", 1, 501, 1);
  w.kernel(stream, "gemm", 516, 600, 3);
  CHECK(replayed(rebuilt(w.recording).graph).back() == 600);
}

TEST_CASE("a thread's wait before its first launch moves with the work that it waited for") {
  RecordingWriter w;
  const auto host = w.lane("1", "1"), backward = w.lane("1", "2");
  const auto stream = w.lane("0", "7"), side = w.lane("0", "9");
  w.call(host, "cudaLaunchKernel", 0, 5, 0);
  w.call(host, "cudaEventRecord", 6, 7, 1);
  w.call(backward, "cudaEventSynchronize", 10, 107, 2);
  w.call(backward, "cudaLaunchKernel", 112, 117, 3);
  w.kernel(stream, "gemm", 5, 105, 0);
  w.kernel(side, "gemm", 120, 130, 3);
  const auto step = rebuilt(w.recording);
  CHECK(replayed(step.graph) == std::vector<Ns>{100, 125});
  CHECK(replayed(step.graph, 2) == std::vector<Ns>{50, 70});
}

TEST_CASE("a call that rounding begins before the end of the one ahead of it is no part of that") {
  const Ns end = GENERATE(105, 106);
  CAPTURE(end);
  RecordingWriter w;
  const auto host = w.lane("1", "1"), stream = w.lane("0", "7");
  w.call(host, "cudaLaunchKernel", 0, 5, 0);
  w.call(host, "cudaDeviceSynchronize", 5, end, 1);
  w.call(host, "cudaLaunchKernel", 105, 115, 2);
  w.kernel(stream, "gemm", 2, 102, 0);
  w.kernel(stream, "gemm", 112, 122, 2);
  const auto step = rebuilt(w.recording);
  CHECK(replayed(step.graph) == std::vector<Ns>{100, 120});
  CHECK(replayed(step.graph, 2).back() == 65);
}

TEST_CASE("calls that overlap on one thread are one call, however many there are") {
  RecordingWriter w;
  const auto host = w.lane("1", "1"), stream = w.lane("0", "7");
  w.call(host, "cudaLaunchKernel", 0, 53, 0);
  w.call(host, "cudaLaunchKernel", 50, 203, 1);
  w.call(host, "cudaLaunchKernel", 100, 104, 2);  // within the second one alone
  w.kernel(stream, "gemm", 10, 13, 0);
  w.kernel(stream, "gemm", 60, 63, 1);
  w.kernel(stream, "gemm", 110, 112, 2);
  CHECK(replayed(rebuilt(w.recording).graph) == std::vector<Ns>{3, 53, 102});
}

TEST_CASE("a thread that took over from another one waits for it") {
  RecordingWriter w;
  const auto main = w.lane("1", "1"), backward = w.lane("1", "2"), stream = w.lane("0", "7");
  w.call(main, "cudaLaunchKernel", 0, 5, 0);
  w.call(main, "cudaStreamSynchronize", 6, 106, 1);
  w.call(backward, "cudaLaunchKernel", 200, 205, 2);
  w.call(main, "cudaLaunchKernel", 300, 305, 3);
  w.kernel(stream, "gemm", 5, 105, 0);
  w.kernel(stream, "gemm", 206, 216, 2);
  w.kernel(stream, "gemm", 306, 316, 3);
  const auto step = rebuilt(w.recording);
  CHECK(replayed(step.graph) == std::vector<Ns>{100, 211, 311});
  // The whole chain comes 50 µs earlier with the first op.
  CHECK(replayed(step.graph, 2) == std::vector<Ns>{50, 156, 256});
}

TEST_CASE("of calls of two threads that overlap the stream shows which handed over first") {
  RecordingWriter w;
  const auto main = w.lane("1", "1"), other = w.lane("1", "2"), stream = w.lane("0", "7");
  w.call(main, "cudaLaunchKernel", 0, 100, 0);
  w.call(other, "cudaLaunchKernel", 50, 60, 1);
  w.kernel(stream, "gemm", 64, 164, 1);
  w.kernel(stream, "gemm", 164, 200, 0);
  SECTION("once") {}
  SECTION("and again, of the first one's second op") {
    const auto second = w.lane("0", "9");
    w.call(other, "cudaLaunchKernel", 70, 80, 2);
    w.kernel(second, "gemm", 84, 184, 2);
    w.kernel(second, "gemm", 184, 200, 0);
  }
  const auto step = rebuilt(w.recording);
  CHECK(step.ranks[0].unexplained == 0);
  const auto ends = replayed(step.graph);
  CHECK(*std::ranges::min_element(ends) == 100);
  CHECK(*std::ranges::max_element(ends) == 136);
}

}  // namespace foregather::test
