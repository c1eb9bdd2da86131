#include <catch2/catch.hpp>

#include "recordings.h"
#include "core/compare/memory_causes.h"
#include "core/rebuild/measured_run.h"

namespace foregather::test {
namespace {

class MemoryWriter : public RecordingWriter {
 public:
  MemoryWriter() : host(lane("1", "1")), autograd(lane("1", "2")), stream(lane("0", "7")) {}

  void event(run::LaneRow thread, Ns time, std::uint64_t address, Bytes bytes) {
    allocated_ += bytes;
    run::MemoryColumns& rows = recording.memory;
    rows.lane.push_back(thread);
    rows.device.push_back(recording.strings.intern("1:0"));
    rows.time.push_back(time * kMicrosecond);
    rows.address.push_back(address);
    rows.bytes.push_back(bytes);
    rows.total_allocated.push_back(allocated_);
    rows.total_reserved.push_back(8192);
  }
  void launch(run::LaneRow thread, Ns time, const char* kernel) {
    call(thread, "cudaLaunchKernel", time, time + 1, next_);
    this->kernel(stream, kernel, 1000 + time, 1001 + time, next_++);
  }

  run::LaneRow host, autograd, stream;

 private:
  Bytes allocated_ = 1000;  // held before the first event
  std::uint32_t next_ = 0;
};

const run::BindingRecord& at(const run::Run& run, std::uint64_t address) {
  for (const run::BindingRecord& binding : run.bindings)
    if (binding.address == address) return binding;
  FAIL("no binding at " << address);
  return run.bindings.front();
}

}  // namespace

TEST_CASE("causes are inferred from the phases of allocation and free") {
  MemoryWriter w;
  w.range(w.host, "model", 100, 200);
  w.range(w.autograd, "autograd::engine::evaluate_function: MmBackward0", 300, 400);
  w.range(w.host, "Optimizer.step#Adam.step", 500, 600);
  w.event(w.host, 90, 9, -100);  // held before; freed in the forward
  w.event(w.host, 110, 1, 64);   // activation
  w.event(w.host, 111, 2, 32);   // temporary
  w.launch(w.host, 120, "some_gemm");
  w.event(w.host, 130, 2, -32);
  w.launch(w.host, 140, "some_gemm");
  w.event(w.autograd, 310, 3, 128);   // gradient
  w.event(w.autograd, 311, 8, -200);  // held before; an activation of before the recording
  w.launch(w.autograd, 320, "some_gemm");
  w.event(w.autograd, 330, 1, -64);
  w.launch(w.autograd, 340, "some_gemm");
  w.event(w.host, 510, 4, 256);  // an optimizer state
  w.launch(w.host, 520, "adam");
  w.event(w.host, 530, 3, -128);
  w.launch(w.host, 540, "adam");
  const run::Recording* const one = &w.recording;
  const auto measured = rebuild::measured_run({&one, 1}, {});
  REQUIRE(measured);
  const run::Run& run = measured->run;
  CHECK(run.steps[0].causes_inferred);
  CHECK(at(run, 1).cause == Cause::activation);
  CHECK(run.text_of(at(run, 1).scope) == "model");
  REQUIRE(at(run, 1).before_op);
  CHECK(at(run, 1).before_op == run::OpRow(0));
  CHECK(at(run, 2).cause == Cause::temporary);
  CHECK(at(run, 3).cause == Cause::gradient);
  CHECK(at(run, 4).cause == Cause::persistent);
  CHECK(at(run, 4).still_bound);
  CHECK(at(run, 8).cause == Cause::activation);
  CHECK(at(run, 8).from_before);
  CHECK(at(run, 9).cause == Cause::unknown);
  const run::BindingRecord& held = at(run, 0);
  CHECK(held.bytes == 700);  // 1000 less what is freed later
  CHECK(held.cause == Cause::persistent);
  // At the largest total: 700 + 64 + 128 + 200.
  const compare::MemoryAtPeak peak = compare::memory_at_peak(run, run::StepRow(0));
  CHECK(peak.total() == 1092);
  CHECK(peak.is_inferred);
  CHECK(peak.by_cause[static_cast<std::size_t>(Cause::activation)] == 264);
  CHECK(peak.by_cause[static_cast<std::size_t>(Cause::gradient)] == 128);
}

TEST_CASE("memory events without an address are counted, not guessed") {
  MemoryWriter w;
  w.launch(w.host, 10, "some_gemm");
  w.event(w.host, 20, 0, 64);
  const run::Recording* const one = &w.recording;
  const auto measured = rebuild::measured_run({&one, 1}, {});
  REQUIRE(measured);
  CHECK(measured->run.bindings.empty());
  CHECK_FALSE(measured->run.steps[0].causes_inferred);
  REQUIRE(measured->warnings.size() == 1);
  CHECK(measured->warnings[0] == ": 1 memory events name no address, and tell no allocations");
}

}  // namespace foregather::test
