// torch.profiler traces in the styles and with the damages that exist.
#include "traces/kineto.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>

using namespace foregather;
using traces::KinetoTrace;

namespace {

KinetoTrace read_profile(std::string_view text) {
  const auto source = traces::text_of(text);
  auto trace = traces::read_kineto(*source, "t.json");
  if (!trace) FAIL(trace.error().text());
  const run::Recording& recording = trace->recording;
  std::int64_t accounted = recording.rows.kept;
  for (const auto* counts : {&recording.rows.unused, &recording.dropped})
    for (const auto& [word, n] : *counts) accounted += n;
  CHECK(recording.rows.read == accounted);
  return std::move(*trace);
}

std::string event(std::string_view category, std::string_view rest) {
  return fmt::format(R"({{"ph": "X", "cat": "{}", "name": "n", "pid": 0, "tid": 7, {}}})", category,
                     rest);
}

std::string lane(const run::Recording& recording, run::LaneRow row) {
  const run::Lane& lane = recording.lanes.at(row.row());
  return std::string(recording.text(lane.process)) + "/" + std::string(recording.text(lane.thread));
}

}  // namespace

TEST_CASE("kineto: categories of all years, in any case") {
  std::string text = "[";
  for (const char* category :
       {"Kernel", "kernel", "Memcpy", "gpu_memcpy", "Memset", "gpu_memset", "Runtime",
        "cuda_runtime", "cuda_driver", "hip_runtime", "Operator", "cpu_op", "user_annotation",
        "python_function", "cuda_sync", "overhead"})
    text += event(category, R"("ts": 1, "dur": 1)") + ",";
  text.back() = ']';
  const KinetoTrace trace = read_profile(text);
  const run::Recording& recording = trace.recording;
  CHECK(recording.activities.size() == 6);
  CHECK(recording.calls.size() == 4);
  CHECK(recording.ranges.size() == 4);
  CHECK(recording.syncs.size() == 1);
  CHECK(recording.rows.unused == run::EventCounts{{"overhead", 1}});
  CHECK(trace.facts.events == 16);
  CHECK(trace.facts.categories.at("Kernel") == 1);
}

TEST_CASE("kineto: numbers in strings, and no duration") {
  const KinetoTrace trace =
      read_profile("[" + event("kernel", R"("ts": "1700000000000000.123", "dur": "2.5")") + "," +
                   event("kernel", R"("ts": 5)") + "]");
  const auto& rows = trace.recording.activities;
  REQUIRE(rows.size() == 2);
  CHECK(rows.start[0] == 1700000000000000123);
  CHECK(rows.end[0] == 1700000000000002623);
  CHECK(rows.end[1] == rows.start[1]);
}

TEST_CASE("kineto: bad times cost their event and are counted by reason") {
  const KinetoTrace trace = read_profile(
      "[" + event("kernel", R"("ts": 1, "dur": -1)") + "," + event("kernel", R"("ts": "soon")") +
      "," + event("kernel", R"("dur": 1)") + "," + event("kernel", R"("ts": null)") + "," +
      event("kernel", R"("ts": 1, "dur": "long")") + "," + event("kernel", R"("ts": 1e30)") + "," +
      event("kernel", R"("ts": 2305843009213000, "dur": 2305843009213000)") + "," +
      event("kernel", R"("ts": 1, "dur": 1)") + "]");
  CHECK(trace.recording.activities.size() == 1);
  CHECK(trace.recording.dropped ==
        run::EventCounts{
            {"neg_dur", 1}, {"nonnumeric_ts", 3}, {"nonnumeric_dur", 1}, {"time_out_of_range", 2}});
}

TEST_CASE("kineto: a base time beyond all times is said and left out") {
  for (const char* base : {"-5", "9223372036854775807", "18446744073709551615"}) {
    CAPTURE(base);
    const KinetoTrace trace =
        read_profile(fmt::format(R"({{"baseTimeNanoseconds": {}, "traceEvents": []}})", base));
    CHECK(trace.recording.base == 0);
    REQUIRE(trace.recording.warnings.size() == 1);
    CHECK(trace.recording.warnings[0].starts_with(
        fmt::format("t.json: baseTimeNanoseconds is {}, expected a time", base)));
  }
}

TEST_CASE("kineto: events that are no list are said") {
  for (const char* other : {"null", "{}", R"("x")"}) {
    const KinetoTrace trace = read_profile(fmt::format(R"({{"traceEvents": {}}})", other));
    REQUIRE(trace.recording.warnings.size() == 1);
    CHECK(trace.recording.warnings[0].find("'traceEvents' is a") != std::string::npos);
  }
}

TEST_CASE("kineto: entries that are no objects, and a damaged one, cost themselves alone") {
  const std::string good = event("kernel", R"("ts": 1, "dur": 1)");
  const KinetoTrace trace = read_profile(
      "[" + good + ", null, 3, [], \"x\", " + good + R"(, {"ph": "X", "ts": 1 "dur"}, )" + good +
      R"(, {"ph": "X", "name": "\ud800", "cat": "kernel", "ts": 01}, )" + good + "]");
  CHECK(trace.recording.activities.size() >= 4);
  std::int64_t dropped = 0;
  for (const auto& [reason, n] : trace.recording.dropped) {
    CHECK((reason == "not_an_object" || reason == "unreadable_event" || reason == "nonnumeric_ts"));
    dropped += n;
  }
  CHECK(dropped + static_cast<std::int64_t>(trace.recording.activities.size()) == 10);
}

TEST_CASE("kineto: a name with a raw line end costs its event alone") {
  const std::string good = event("kernel", R"("ts": 1, "dur": 1)");
  const KinetoTrace trace =
      read_profile("[" + good +
                   ",\n{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"a\nb\", "
                   "\"ts\": 2},\n" +
                   good + "]");
  CHECK(trace.recording.activities.size() == 2);
  CHECK(trace.recording.dropped == run::EventCounts{{"unreadable_event", 1}});
}

TEST_CASE("kineto: equal correlation ids are one id, huge ones are kept apart") {
  const KinetoTrace trace = read_profile(
      "[" + event("cuda_runtime", R"("ts": 1, "args": {"correlation": 5})") + "," +
      event("kernel", R"("ts": 1, "args": {"correlation": 5, "stream": 20})") + "," +
      event("kernel", R"("ts": 1, "args": {"correlation": 5})") + "," +
      event("kernel", R"("ts": 1, "args": {"correlation": 18446744073709551615})") + "," +
      event("kernel", R"("ts": 1, "args": {"correlation": 184467440737095516150})") + "]");
  const run::Recording& recording = trace.recording;
  REQUIRE(recording.activities.size() == 4);
  CHECK(recording.activities.correlation[0] == recording.calls.correlation[0]);
  CHECK(recording.activities.correlation[1] == recording.calls.correlation[0]);
  CHECK(recording.activities.correlation[2] != recording.calls.correlation[0]);
  CHECK_FALSE(recording.activities.correlation[3]);
  CHECK(recording.correlations == 2);
  CHECK(lane(recording, recording.activities.lane[0]) == "0/20");
  CHECK(lane(recording, recording.activities.lane[1]) == "0/7");
}

TEST_CASE("kineto: a launch is known by a quoted correlation, too") {
  const KinetoTrace trace =
      read_profile("[" + event("cuda_runtime", R"("ts": 1, "args": {"correlation": 5})") + "," +
                   event("kernel", R"("ts": 1, "args": {"correlation": "5", "External id": "9"})") +
                   "," + event("kernel", R"("ts": 1, "args": {"correlation": "five"})") + "]");
  const run::Recording& recording = trace.recording;
  CHECK(recording.activities.correlation[0] == recording.calls.correlation[0]);
  CHECK(recording.activities.external[0]);
  CHECK_FALSE(recording.activities.correlation[1]);
}

TEST_CASE("kineto: collectives, with ids beyond any integer") {
  const KinetoTrace trace =
      read_profile("[" + event("kernel", R"("ts": 1, "args": {"Collective name": "_allgather_base",
        "In msg nelems": 10, "Out msg nelems": 20, "Group size": 2, "dtype": "BFloat16",
        "Process Group Name": "0", "Process Group Ranks": "[0, 1]", "Seq": 3,
        "Comms Id": 99999999999999999999999999})") +
                   "]");
  const run::Recording& recording = trace.recording;
  REQUIRE(recording.collectives.size() == 1);
  const run::RecordedCollective& collective = recording.collectives[0];
  CHECK(recording.text(collective.name) == "_allgather_base");
  CHECK(recording.text(collective.dtype) == "BFloat16");
  CHECK(collective.in_elements == 10);
  CHECK(collective.out_elements == 20);
  CHECK(collective.group_size == 2);
  CHECK(collective.sequence == 3);
  CHECK(trace.facts.collectives.at("_allgather_base") == 1);
}

TEST_CASE("kineto: operators of attention keep the values of their arguments") {
  const auto values_of = [](std::string_view op) {
    const KinetoTrace trace = read_profile(fmt::format(R"([{{"ph": "X", "cat": "cpu_op",
      "name": "{}", "pid": 0, "tid": 7, "ts": 1, "dur": 1, "args": {{"Input Dims": [[7], []],
      "Input type": ["float", "Scalar"], "Concrete Inputs": ["", "True"]}}}}])",
                                                       op));
    const run::RangeColumns& ranges = trace.recording.ranges;
    REQUIRE(ranges.size() == 1);
    return std::string(trace.recording.text(ranges.values[0]));
  };
  for (const char* op : {"aten::_flash_attention_forward", "aten::_cudnn_attention_backward"}) {
    CAPTURE(op);
    CHECK(values_of(op) == R"(["", "True"])");
  }
  CHECK(values_of("aten::sum").empty());
}

TEST_CASE("kineto: operators of c10d say their collective by shapes") {
  const auto operation = [](std::string_view name, std::string_view arguments) {
    return fmt::format(R"({{"ph": "X", "cat": "cpu_op", "name": "{}", "pid": 0, "tid": 7,
      "ts": 1, "dur": 1, "args": {{{}}}}})",
                       name, arguments);
  };
  const KinetoTrace trace = read_profile(
      "[" +
      operation("c10d::_allgather_base_", R"("Input type": ["c10::BFloat16", "c10::BFloat16", "",
        "Scalar"], "Input Dims": [[2, 8], [8], [], []])") +
      "," + operation("c10d::allgather_", R"("Input Dims": [[], [[3, 4], []], []],
        "Input type": ["", "TensorList", ""])") +
      "," +
      operation("c10d::reduce_scatter_",
                R"("Input Dims": [[[5]], []], "Input type": ["TensorList", ""])") +
      "," +
      operation("c10d::allreduce_",
                R"("Input Dims": [[[5], [2]], []], "Input type": ["TensorList", ""])") +
      "," + operation("gloo:all_reduce", R"("Input Dims": [[7]], "Input type": ["float"])") + "," +
      operation("aten::mm", R"("Input Dims": [[7]], "Input type": ["float"])") + "," +
      operation("c10d::barrier", R"("Input Dims": [[]], "Input type": ["Scalar"])") + "," +
      operation("c10d::allreduce_", R"("Input Dims": 3, "Input type": [5])") + "," +
      operation("c10d::send", R"("Input Dims": [[-1, 99999999999, 99999999999]],
        "Input type": ["float"])") +
      "]");
  const run::Recording& recording = trace.recording;
  std::vector<std::string> rows;
  for (const run::CollectiveRow row : recording.ranges.collective) {
    if (!row) {
      rows.emplace_back("none");
      continue;
    }
    const run::RecordedCollective& said = recording.collectives.at(row.row());
    rows.push_back(fmt::format("{} {} {} {}", recording.text(said.name), recording.text(said.dtype),
                               said.in_elements, said.out_elements));
  }
  CHECK(rows == std::vector<std::string>{"_allgather_base BFloat16 8 16", "allgather  13 0",
                                         "reduce_scatter  0 5", "allreduce  7 7",
                                         "gloo:all_reduce Float 7 7", "none", "none", "none",
                                         "send Float 0 0"});
  CHECK(trace.facts.collectives.empty());  // only what events call so
}

TEST_CASE("kineto: steps by name, the last of a number counts") {
  const KinetoTrace trace = read_profile(
      R"([{"ph":"X","cat":"user_annotation","name":"ProfilerStep#12","pid":1,"tid":1,"ts":0,"dur":5},
{"ph":"X","cat":"Operator","name":"ProfilerStep # 2","pid":1,"tid":1,"ts":9,"dur":6},
{"ph":"X","cat":"user_annotation","name":"ProfilerStep#2","pid":1,"tid":1,"ts":20,"dur":7},
{"ph":"X","cat":"gpu_user_annotation","name":"ProfilerStep#2","pid":0,"tid":7,"ts":20,"dur":99},
{"ph":"X","cat":"user_annotation","name":"ProfilerStep#x","pid":1,"tid":1,"ts":20,"dur":1}])");
  CHECK(trace.facts.steps == std::map<std::int64_t, Ns>{{2, 7000}, {12, 5000}});
}

TEST_CASE("kineto: memory events") {
  const KinetoTrace trace = read_profile(
      R"([{"ph":"i","cat":"cpu_instant_event","name":"[memory]","pid":1,"tid":1,"ts":3,
"args":{"Device Type":1,"Device Id":2,"Addr":140736,"Bytes":-512,"Total Allocated":1024,"Total Reserved":4096}},
{"ph":"i","cat":"cpu_instant_event","name":"[memory]","pid":1,"tid":1,"ts":"never","args":{}},
{"ph":"i","cat":"cpu_instant_event","name":"[memory]","pid":1,"tid":1,"ts":1e30,"args":{}},
{"ph":"i","cat":"cpu_instant_event","name":"other","pid":1,"tid":1,"ts":3}])");
  const run::MemoryColumns& rows = trace.recording.memory;
  REQUIRE(rows.size() == 1);
  CHECK(trace.recording.text(rows.device[0]) == "1:2");
  CHECK(rows.bytes[0] == -512);
  CHECK(rows.address[0] == 140736);
  CHECK(rows.total_allocated[0] == 1024);
  CHECK(trace.facts.memory_events == 3);
  CHECK(trace.recording.dropped ==
        run::EventCounts{{"nonnumeric_ts", 1}, {"time_out_of_range", 1}});
  CHECK(trace.recording.rows.unused == run::EventCounts{{"phase i", 1}});
}

TEST_CASE("kineto: synchronisations and what they wait for") {
  const KinetoTrace trace = read_profile(
      "[" + event("cuda_sync", R"("ts": 1, "dur": 2, "args": {"stream": 7, "correlation": 9,
      "wait_on_stream": 20, "wait_on_cuda_event_record_corr_id": 4})") +
      "]");
  const run::SyncColumns& rows = trace.recording.syncs;
  REQUIRE(rows.size() == 1);
  CHECK(trace.recording.text(rows.awaited_stream[0]) == "20");
  CHECK(rows.recorded[0] != rows.correlation[0]);
  CHECK(lane(trace.recording, rows.lane[0]) == "0/7");
}

TEST_CASE("kineto: sizes of process groups") {
  const KinetoTrace trace = read_profile(R"({"distributedInfo": {"pg_count": 9, "pg_config": [
{"pg_name": "0", "pg_size": 8}, 5, {"pg_size": -1}, {"pg_size": 2}]}, "traceEvents": []})");
  CHECK(trace.recording.group_sizes == std::vector<std::uint32_t>{8, 2});
  CHECK(trace.facts.process_groups == 4);
}

TEST_CASE("kineto: what lies beside the events") {
  const KinetoTrace trace = read_profile(R"({"schemaVersion": 1, "record_shapes": 1,
"distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8, "pg_count": 2},
"deviceProperties": [{"name": "A100"}, 7, {"name": "A100"}], "baseTimeNanoseconds": 1700000000,
"traceEvents": [], "traceName": "x"})");
  CHECK(trace.recording.rank == 3U);
  CHECK(trace.recording.world_size == 8U);
  CHECK(trace.recording.backend == "nccl");
  CHECK(trace.recording.base == 1700000000);
  CHECK(trace.recording.devices == std::vector<std::string>{"A100", "A100"});
  CHECK(trace.facts.machine_devices == 3);
  CHECK(trace.facts.process_groups == 2);
  CHECK(trace.facts.top_keys == std::vector<std::string>{"schemaVersion", "record_shapes",
                                                         "distributedInfo", "deviceProperties",
                                                         "baseTimeNanoseconds", "traceName"});
}

TEST_CASE("kineto: an exported prediction is said to be one") {
  const auto warnings_of = [](const std::string& other) {
    return read_profile("{\"otherData\": " + other + ", \"traceEvents\": []}").recording.warnings;
  };
  const auto said = warnings_of(R"({"tool": "foregather 0.1.0", "kind": "predicted"})");
  REQUIRE(said.size() == 1);
  CHECK(said.front().ends_with(
      ": holds a prediction that foregather exported; no time in it was measured"));
  CHECK(warnings_of(R"({"tool": "foregather 0.1.0", "kind": "measured"})").empty());
  CHECK(warnings_of(R"({"tool": 7, "kind": "predicted"})").empty());
  CHECK(warnings_of("[]").empty());
}

TEST_CASE("kineto: a trace is known by its first keys, however far its events are") {
  CHECK(traces::is_chrome_json("{\"traceEvents\": ["));
  CHECK(traces::is_chrome_json("\xef\xbb\xbf [ {\"ph\": "));
  CHECK(traces::is_chrome_json("{\"schemaVersion\": 1, \"distributedInfo\": {\"pg_config\": ["));
  CHECK_FALSE(traces::is_chrome_json("{\"schema\": \"1.0.2-chakra\", \"nodes\": ["));
  CHECK_FALSE(traces::is_chrome_json("[1, 2"));
  CHECK_FALSE(traces::is_chrome_json(""));
}

TEST_CASE("kineto: a header of wrong types is as good as none") {
  const KinetoTrace trace = read_profile(R"({"distributedInfo": [1], "deviceProperties": {"a": 1},
"schemaVersion": {"x": 1}, "baseTimeNanoseconds": "now", "traceEvents": []})");
  CHECK_FALSE(trace.recording.rank);
  CHECK(trace.recording.base == 0);
  CHECK(trace.recording.devices.empty());
}

TEST_CASE("kineto: ranks that were put into one file are named where their launches mix") {
  const auto rank = [](int process, int device) {
    return fmt::format(
        R"({{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": {}, "tid": 1,
"ts": 1, "dur": 1, "args": {{"correlation": 7}}}}, {{"ph": "X", "cat": "kernel", "name": "gemm", "pid": {},
"tid": 7, "ts": 5, "dur": 1, "args": {{"correlation": 7}}}})",
        process, device);
  };
  const auto warnings = [](const std::string& events) {
    return read_profile("[" + events + "]").recording.warnings;
  };
  CHECK(warnings(rank(100, 0)).empty());
  CHECK(
      warnings(rank(100, 0) + ", " + rank(200, 1)) ==
      std::vector<std::string>{
          "t.json: 2 of 2 device activities have the number of launches of several processes, and "
          "may be taken for the wrong one's: expected a file a rank"});
}

TEST_CASE("kineto: a bare array that was cut says so") {
  const KinetoTrace trace =
      read_profile("[" + event("kernel", R"("ts": 1, "dur": 1)") + ", {\"ph\": \"X\", \"na");
  CHECK(trace.recording.activities.size() == 1);
  CHECK(trace.recording.dropped == run::EventCounts{{"cut", 1}});
  REQUIRE(trace.recording.warnings.size() == 1);
  CHECK(trace.recording.warnings[0] == "t.json: the array of events has no end: the file was cut");
}

TEST_CASE("kineto: damage far into a long trace leaves the rest of its window") {
  std::string text = "{\"traceEvents\": [";
  for (int i = 0; i < 40000; ++i)
    text += (i == 20000 ? std::string("{\"ph\": tru, \"x\": 1}")
                        : event("kernel", fmt::format("\"ts\": {}, \"dur\": 1", i))) +
            (i + 1 < 40000 ? "," : "]}");
  const KinetoTrace trace = read_profile(text);
  CHECK(trace.recording.activities.size() == 39999);
}
