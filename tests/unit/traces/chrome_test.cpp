// What a viewer makes of an exported Chrome trace. Whole runs: tests/unit/tasks/export_test.cpp.
#include "traces/chrome.h"

#include <algorithm>
#include <map>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/run/kernel_names.h"
#include "tests/support/chrome_trace.h"
#include "tests/support/example_run.h"
#include "traces/chrome_names.h"

using namespace foregather;
using test::ChromeSlice;

namespace {

const ChromeSlice& with_key(const test::ChromeView& view, std::string_view key) {
  for (const auto& [track, slices] : view.tracks)
    for (const ChromeSlice& slice : slices)
      if (slice.key == key) return slice;
  FAIL("no slice " << key);
  throw std::logic_error("unreachable");
}

std::vector<std::string> lines(const test::ChromeView& view, std::string_view category) {
  std::vector<std::string> lines;
  for (const test::ChromeArrow& arrow : view.arrows)
    if (arrow.category == category)
      lines.push_back(arrow.name + ": " + arrow.from->key + " > " + arrow.to->key);
  return lines;
}

// Two ops of a stream that overlap, and one behind both.
run::Run overlapping_run(run::RunKind of) {
  run::Run run;
  run.about.kind = of;
  const auto rank = run.add(run::ClassInfo{run.text("rank 3"), {3}});
  const auto stream = run.add(run::StreamInfo{rank, run.text("1/20"), 0});
  run::StepInfo step;
  step.rank_class = rank;
  step.number = 4;
  step.end = 40;
  run::OpRecord op;
  op.step = run.add(step);
  op.stream = stream;
  const auto add = [&](OpKind kind, const char* source, Ns start, Ns end) {
    op.kind = kind;
    op.source = run.text(source);
    op.issued = op.start = op.transfer = start;
    op.end = end;
    ++op.ordinal;
    run.add(op);
  };
  add(OpKind::all_reduce, "ncclDevKernel_AllReduce_Sum_bf16(\"x\")", 0, 20);
  add(OpKind::copy, "Memcpy DtoD (Device -> Device)", 10, 30);
  add(OpKind::fill, "Memset (Device)", 30, 40);
  return run;
}

}  // namespace

TEST_CASE("Chrome trace: times are exact, a wait lies within its collective") {
  const auto view = test::read_chrome(test::chrome_text(test::example_run()));
  CHECK(view.faults.empty());
  const ChromeSlice& gather = with_key(view, "r0/s1/m0/layers.0/forward/all_gather/0@fsdp#7");
  CHECK(gather.name == "ncclKernel_AllGather layers.0/forward");
  CHECK(gather.begin == 110);
  CHECK(gather.end == 130);
  const auto waits = view.named("wait for other ranks");
  REQUIRE(waits.size() == 1);
  CHECK(waits.front()->begin == 110);
  CHECK(waits.front()->end == 115);
  CHECK(with_key(view, "r2/s1/m0/-/forward/norm/0").name == "-/forward/norm");
}

TEST_CASE("Chrome trace: a process a class, a track a stream, steps and launches beside them") {
  const auto view = test::read_chrome(test::chrome_text(test::example_run()));
  CHECK(view.processes.at(1) == "predicted: fast (3 ranks from 0)");
  CHECK(view.processes.at(2) == "predicted: slow");
  CHECK(view.threads.at({2, 1}) == "steps");
  CHECK(view.threads.at({2, 3}) == "host");
  CHECK(view.threads.at({2, 5}) == "comm");
  REQUIRE(view.named("step 1 (steady)").size() == 2);
  CHECK(view.named("step 1 (steady)").front()->begin == 90);
  REQUIRE(view.named("ProfilerStep#1").size() == 2);
  CHECK(view.named("ProfilerStep#1").front()->begin == 98);  // the first launch
  CHECK(view.named("ProfilerStep#1").front()->end == 129);   // behind the last one
  const auto launches = view.named("cudaLaunchKernel");
  CHECK(std::count_if(launches.begin(), launches.end(), [](const ChromeSlice* slice) {
          return slice->begin == slice->end;  // not the recorded call
        }) == 6);
}

TEST_CASE("Chrome trace: arrows from launches, from what was waited for") {
  const auto view = test::read_chrome(test::chrome_text(test::example_run()));
  CHECK(lines(view, "ac2g").size() == 6);
  CHECK(lines(view, "wait") ==
        std::vector<std::string>{
            // the last rank to arrive, at its arrival
            "rendezvous: r2/s1/m0/layers.0/forward/all_gather/0@fsdp#7 > "
            "r0/s1/m0/layers.0/forward/all_gather/0@fsdp#7",
            "event: r0/s1/m0/layers.0/forward/all_gather/0@fsdp#7 > "
            "r0/s1/m0/layers.0.mlp/forward/gemm/0",
            "event: r2/s1/m0/layers.0.attn/forward/gemm/0 > "
            "r2/s1/m0/layers.0/forward/all_gather/0@fsdp#7",
            "event: r2/s1/m0/layers.0/forward/all_gather/0@fsdp#7 > r2/s1/m0/-/forward/norm/0"});
  CHECK(lines(view, "gather").empty());  // its ops name no unit
}

TEST_CASE("Chrome trace: an arrow from a gather to what needs it first") {
  run::Run run = test::example_run();
  std::fill(run.ops.unit.begin(), run.ops.unit.end(), run.text("layers.0"));
  run.ops.bound_by[2] = {};  // nothing waits for the first gather
  const auto view = test::read_chrome(test::chrome_text(run));
  CHECK(view.faults.empty());
  CHECK(lines(view, "gather") ==
        std::vector<std::string>{"gathered: r0/s1/m0/layers.0/forward/all_gather/0@fsdp#7 > "
                                 "r0/s1/m0/layers.0.mlp/forward/gemm/0"});
}

TEST_CASE("Chrome trace: memory rises and falls, each cause apart") {
  const auto view = test::read_chrome(test::chrome_text(test::example_run()));
  const auto& counters = view.counters.at(1);
  using Points = std::vector<std::pair<Ns, std::int64_t>>;
  CHECK(counters.at("memory allocated") == Points{{95, 1024}, {140, 0}});
  CHECK(counters.at("memory requested") == Points{{95, 900}, {140, 0}});
  CHECK(counters.at("held by unsharded_parameter bytes") == Points{{95, 1024}, {140, 0}});
  CHECK(counters.size() == 5);
  CHECK_FALSE(view.counters.contains(2));
}

TEST_CASE("Chrome trace: ops of a stream that overlap go to a further track") {
  const run::Run run = overlapping_run(run::RunKind::measured);
  const std::string text = test::chrome_text(run);
  const auto view = test::read_chrome(text);
  CHECK(view.faults.empty());
  CHECK(view.threads.at({1, 3}) == "stream 20");
  CHECK(view.threads.at({1, 4}) == "stream 20 (2)");
  REQUIRE(view.tracks.at({1, 3}).size() == 2);
  CHECK(view.tracks.at({1, 3})[1].begin == 30);
  CHECK(view.tracks.at({1, 4})[0].begin == 10);
  const auto trace = nlohmann::json::parse(text);
  int ops = 0;
  for (const auto& event : trace.at("traceEvents")) {
    if (!event.contains("args") || !event.at("args").contains("key")) continue;
    ++ops;
    CHECK(event.at("args").at("stream") == 20);
    CHECK(event.at("args").at("device") == 1);
  }
  CHECK(ops == 3);
}

TEST_CASE("Chrome trace: recorded ops keep the names of their kernels, predicted ones have none") {
  const auto recorded =
      test::read_chrome(test::chrome_text(overlapping_run(run::RunKind::measured)));
  const auto& first = recorded.tracks.at({1, 3});
  CHECK(first[0].name == "ncclDevKernel_AllReduce_Sum_bf16(\"x\")");
  CHECK(first[0].category == "kernel");
  CHECK(first[1].category == "gpu_memset");
  CHECK(recorded.tracks.at({1, 4})[0].category == "gpu_memcpy");
  CHECK(recorded.named("cudaMemcpyAsync").empty());  // no launch was recorded
  CHECK(lines(recorded, "ac2g").empty());

  run::Run run = overlapping_run(run::RunKind::predicted);
  run.ops.scope[1] = run.text("nccl:all_reduce");  // a copy beside a collective is none
  run.ops.kind[2] = OpKind::host_to_device;
  const auto predicted = test::read_chrome(test::chrome_text(run));
  CHECK(predicted.tracks.at({1, 4})[0].name == "ncclKernel_AllReduce -/other");
  CHECK(predicted.tracks.at({1, 5})[0].name == "-/other/copy");
  CHECK(predicted.tracks.at({1, 4})[1].name == "Memcpy HtoD -/other");
  CHECK(predicted.tracks.at({1, 4})[1].category == "gpu_memcpy");
}

TEST_CASE("Chrome trace: readers find each kind of collective by its name") {
  for (const auto& [kind, name] : {std::pair(OpKind::all_gather, "ncclKernel_AllGather"),
                                   std::pair(OpKind::reduce_scatter, "ncclKernel_ReduceScatter"),
                                   std::pair(OpKind::all_reduce, "ncclKernel_AllReduce"),
                                   std::pair(OpKind::broadcast, "ncclKernel_Broadcast"),
                                   std::pair(OpKind::reduce, "ncclKernel_Reduce_"),
                                   std::pair(OpKind::all_to_all, "ncclKernel_AllToAll"),
                                   std::pair(OpKind::send_recv, "ncclKernel_SendRecv"),
                                   std::pair(OpKind::barrier, "ncclKernel_Barrier")}) {
    CAPTURE(name);
    run::Run run = overlapping_run(run::RunKind::predicted);
    run.ops.kind[0] = kind;
    run.ops.scope[0] = run.text("layers.3");
    std::string space;
    const std::string title(traces::ChromeNames(run).title(run::OpRow(0), space));
    CHECK(title == std::string(name) + " layers.3/other");
    CHECK(run::op_kind(run::ActivityKind::kernel, title) == kind);
  }
}

TEST_CASE("Chrome trace: recorded calls are slices, arrows lead from them, no time is negative") {
  run::Run run = overlapping_run(run::RunKind::measured);
  const auto thread = run.add(run::ThreadInfo{run::ClassRow(0), run.text("77"), run.text("1234")});
  const auto graph = run.add(run::HostCallRecord{thread, run.text("cudaGraphLaunch"), -50, -10});
  run.ops.launch.set(0, graph);
  run.ops.launch.set(1, graph);
  run.add(run::HostCallRecord{thread, run.text("cuLaunchKernel"), -40, -20});
  run.ops.launch.set(2, run.add(run::HostCallRecord{thread, run.text("cudaMemsetAsync"), 35, 39}));
  const std::string text = test::chrome_text(run);
  const auto view = test::read_chrome(text);
  CHECK(view.faults.empty());
  CHECK(view.threads.at({1, 3}) == "thread 1234");
  CHECK(view.threads.at({1, 4}) == "thread 1234 (2)");
  REQUIRE(view.named("cudaGraphLaunch").size() == 1);
  CHECK(view.named("cudaGraphLaunch").front()->begin == 0);  // all is 50 ns later
  CHECK(view.named("cudaGraphLaunch").front()->end == 40);
  CHECK(view.named("cuLaunchKernel").front()->category == "cuda_driver");
  CHECK(view.named("Memset (Device)").front()->begin == 80);
  CHECK(view.named("ProfilerStep#4").front()->begin == 0);
  CHECK(view.named("ProfilerStep#4").front()->end == 86);
  // A launch behind its op has no arrow; the correlation joins the two.
  REQUIRE(lines(view, "ac2g").size() == 2);
  for (const test::ChromeArrow& arrow : view.arrows)
    if (arrow.category == "ac2g") CHECK(arrow.from->name == "cudaGraphLaunch");
  std::map<int, int> correlations;
  const auto trace = nlohmann::json::parse(text);
  for (const auto& event : trace.at("traceEvents"))
    if (event.contains("args") && event.at("args").contains("correlation"))
      ++correlations[event.at("args").at("correlation")];
  CHECK(correlations == std::map<int, int>{{1, 3}, {2, 1}, {3, 2}});
}

TEST_CASE("Chrome trace: a step without device work has no launches of its own beside it") {
  run::Run run;
  run.about.kind = run::RunKind::measured;
  const auto rank = run.add(run::ClassInfo{run.text("rank 0"), {0}});
  run::StepInfo step;
  step.rank_class = rank;
  step.end = 100;
  run.add(step);
  const auto thread = run.add(run::ThreadInfo{rank, run.text("77"), run.text("1234")});
  run.add(run::HostCallRecord{thread, run.text("ProfilerStep#0"), 10, 40});
  run.add(run::HostCallRecord{thread, run.text("ProfilerStep#1"), 40, 90});
  const auto view = test::read_chrome(test::chrome_text(run));
  CHECK(view.faults.empty());
  REQUIRE(view.named("ProfilerStep#0").size() == 1);
  CHECK(view.named("ProfilerStep#0").front()->end == 40);
  CHECK(view.named("ProfilerStep#0").front()->category == "user_annotation");
  CHECK(view.named("step 0 (steady)").size() == 1);
  CHECK(view.threads.at({1, 1}) == "steps");
  CHECK(view.threads.at({1, 2}) == "thread 1234");
}

TEST_CASE("Chrome trace: only a trace of one class names its rank") {
  const auto head = [](const run::Run& run, const traces::ChromePart& part) {
    std::string text;
    REQUIRE(traces::ChromeTrace(run).write(part, [&](std::string_view piece) -> Status {
      text += piece;
      return {};
    }));
    return text;
  };
  const run::Run run = test::example_run();
  CHECK(head(run, {}).find("\"distributedInfo\": {\"world_size\": 4}") != std::string::npos);
  const std::string slow = head(run, {run::ClassRow(1), 100});
  CHECK(slow.find("\"distributedInfo\": {\"rank\": 2, \"world_size\": 4}") != std::string::npos);
  const auto view = test::read_chrome(slow);
  CHECK(view.faults.empty());
  CHECK(view.processes.size() == 1);
  CHECK(lines(view, "wait").size() == 2);  // those within the class
  CHECK(slow.find("\"ph\":\"s\",\"id\":104,") != std::string::npos);
}
