#include <algorithm>
#include <fstream>
#include <catch2/catch.hpp>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/ir/builder.h"
#include "tasks/interval.h"
#include "tasks/pareto.h"
#include "tasks/point_message.h"
#include "tasks/recorded_source.h"
#include "tasks/schedule.h"
#include "tasks/simulate.h"
#include "tasks/sniff.h"
#include "tasks/steps/wire_bytes.h"
#include "tasks/thunder_source.h"
#include "tests/support/places.h"
#include "tests/support/scratch.h"
#include "tests/support/written_run.h"

using namespace foregather;
using namespace foregather::tasks;

namespace {

Bytes sent(OpKind kind, Bytes message, std::uint32_t ranks) {
  GraphBuilder builder;
  std::vector<std::uint32_t> all;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) all.push_back(rank);
  Cost cost;
  cost.kind = kind;
  cost.message_bytes = message;
  cost.group = builder.group("all", all, 1);
  const CommunicatorId communicator = builder.communicator("all", cost.group);
  builder.begin_program("rank");
  OpSpec spec;
  spec.kind = kind;
  spec.stream = builder.stream("comm");
  spec.communicator = communicator;
  spec.cost = builder.cost(cost);
  builder.op(spec);
  builder.end_program();
  const Graph graph = builder.finish();
  return wire_bytes(graph, graph.ops.front());
}

}  // namespace

TEST_CASE("bytes on the wire by the ring formulas") {
  CHECK(sent(OpKind::all_gather, 800, 8) == 700);
  CHECK(sent(OpKind::reduce_scatter, 800, 8) == 700);
  CHECK(sent(OpKind::all_reduce, 800, 8) == 1400);
  CHECK(sent(OpKind::send_recv, 800, 2) == 800);
  CHECK(sent(OpKind::all_gather, 800, 1) == 0);
  CHECK(sent(OpKind::all_gather, 10, 3) == 6);  // rounded down
  CHECK(sent(OpKind::all_gather, Bytes{1} << 61, 4) == (Bytes{1} << 59) * 3);
}

TEST_CASE("sniffing goes by content") {
  CHECK(sniff("foregather-schedule 1\n", "x.toml") == SourceKind::schedule);
  CHECK(sniff("[model]\nconfig = 1\n", "x") == SourceKind::workload);
  CHECK(sniff("# a workload\n\nmodel.config = 1\n", "x") == SourceKind::workload);
  CHECK(sniff("oops", "x.toml") == SourceKind::workload);  // the reader says what is wrong
  for (const char* content : {"", "{\"a\": 1}", "hello\nworld", "SQLite format 3"})
    CHECK_FALSE(sniff(content, "x").has_value());
  CHECK_FALSE(sniff(std::string_view("\x7f"
                                     "ELF\0\0",
                                     6),
                    "x.toml")
                  .has_value());
}

TEST_CASE("what other commands read is named where simulate cannot") {
  const auto message = [](std::string_view content) {
    const auto kind = sniff(content, "x.json");
    REQUIRE_FALSE(kind);
    return kind.error().message;
  };
  CHECK(message("{\n  \"model_type\": \"llama\"}").find("[model] config = ") != std::string::npos);
  CHECK(message("{\"architectures\": [\"LlamaForCausalLM\"]}").find("config.json") !=
        std::string::npos);
  CHECK(message(std::string_view("\x80\x04\x95\0", 4)).find("foregather memory") !=
        std::string::npos);
  CHECK(message(R"({"schema": "1.1.0-chakra.0.0.4", "pid": 1, "nodes": [)")
            .starts_with("is an execution trace"));
  for (const char* content : {"{}", "\x80", "\x80\x06", "\"model_type\""})
    CHECK(message(content).starts_with("is in no format that foregather reads"));
}

TEST_CASE("Thunder traces are sniffed in all their clothes") {
  for (const char* trace :
       {"# Constructed by Delete Last Used (took 0 milliseconds)\nimport torch\n",
        "@torch.no_grad()\n@no_autocast\ndef computation(a):\n  return a\n",
        "def backward_fn(saved_for_backward, cotangents):\r\n  C0, _, = saved_for_backward\r\n",
        "# source: somewhere\ndef f(a):\n  # a: \"cuda:0 f32[2]\"\n  return a\n",
        "  \"\"\"\n  def f(a):\n    t0 = torch.add(a, 1)\n    return t0\n",
        "[import thunder\nimport torch\n@torch.no_grad()\ndef f(a):\n",
        "# def f(a):\n#   t0 = torch.add(a, 1)\n"}) {
    CAPTURE(trace);
    CHECK(sniff(trace, "x") == SourceKind::thunder);
  }
  CHECK_FALSE(sniff("def main():\n  print(1)\n", "x.py").has_value());
}

TEST_CASE("the world size of a Thunder trace is a key of its own") {
  const WorldSets sets = take_world_size(
      {"cluster.gpus_per_node=4", "parallel.world_size=2", "parallel.world_size=16"});
  CHECK(sets.world_size == 16);
  CHECK(sets.others == std::vector<std::string>{"cluster.gpus_per_node=4"});
  CHECK_FALSE(sets.error);
  for (const char* bad : {"parallel.world_size=0", "parallel.world_size=x", "parallel.world_size=",
                          "parallel.world_size=-2", "parallel.world_size=99999999999"}) {
    CAPTURE(bad);
    CHECK(take_world_size({bad}).error);
  }
}

TEST_CASE("a forward and its backward are recognised, in either order") {
  const std::string samples = test::source_dir() + "/traces/samples/";
  const std::string forward = samples + "thunder_mlp_zero3_forward.txt";
  const std::string backward = samples + "thunder_mlp_zero3_backward.txt";
  CHECK(are_forward_and_backward(forward, backward));
  CHECK(are_forward_and_backward(backward, forward));
  CHECK_FALSE(are_forward_and_backward(forward, forward));
  CHECK_FALSE(are_forward_and_backward(forward, samples + "tiny_fsdp2.toml"));
  CHECK_FALSE(are_forward_and_backward(forward, "nothing.txt"));
}

TEST_CASE("a run has the peaks of the model of memory that was asked") {
  SimulateRequest request;
  request.sources.paths = {test::source_dir() + "/traces/samples/tiny_fsdp2.toml"};
  request.memory_model = MemoryModel::live;
  const auto outcome = simulate(request);
  if (!outcome) FAIL(outcome.error().text());
  REQUIRE_FALSE(outcome->run.steps.empty());
  for (const run::StepInfo& step : outcome->run.steps) {
    const ClassFigures& figures = outcome->summary.classes[step.rank_class.row()];
    const StepMemory& memory =
        step.kind == run::StepKind::first ? figures.first_memory : figures.memory;
    CHECK(memory.peaks.allocated > 0);
    CHECK(step.peak_requested == memory.peaks.requested);
    CHECK(step.peak_allocated == memory.peaks.allocated);
    CHECK(step.peak_active == memory.peaks.active);
    CHECK(step.peak_reserved == memory.peaks.reserved);
  }
}

TEST_CASE("a schedule that says nothing of memory has no memory curve") {
  SimulateRequest request;
  for (int rank = 0; rank < 4; ++rank)
    request.sources.paths.push_back(
        fmt::format("{}/tests/golden/inputs/chakra/fsdp.{}.et", test::source_dir(), rank));
  const auto outcome = simulate(request);
  if (!outcome) FAIL(outcome.error().text());
  CHECK_FALSE(outcome->summary.has_memory);
  CHECK(outcome->run.memory.empty());
}

TEST_CASE("faster links make recorded collectives faster, beside what was recorded") {
  SimulateRequest request;
  request.sources = {{test::source_dir() + "/tests/golden/inputs/kineto_rank0.json"}, false, {}};
  request.sets = {"cluster.link_bandwidth_scale=2"};
  const auto faster = simulate(request);
  REQUIRE(faster);
  request.sets = {};
  const auto recorded = simulate(request);
  REQUIRE(recorded);
  REQUIRE(faster->summary.as_recorded);
  CHECK(faster->summary.as_recorded->step == recorded->summary.step_time());
  CHECK(*faster->summary.step_time() < *recorded->summary.step_time());
  CHECK_FALSE(recorded->summary.as_recorded);
  CHECK(faster->summary.warnings == recorded->summary.warnings);
}

TEST_CASE("of a recording's steps it is said which are predicted, and what the host's had beside") {
  const auto warned = [](const char* trace, std::optional<std::int64_t> step) {
    SimulateRequest request;
    request.sources = {{test::source_dir() + "/tests/golden/inputs/" + trace}, false, step};
    const auto outcome = simulate(request);
    REQUIRE(outcome);
    std::string all;
    for (const std::string& warning : outcome->summary.warnings) all += warning + "\n";
    return all;
  };
  CHECK_THAT(warned("kineto_three_steps.json", std::nullopt),
             Catch::Contains("kineto_three_steps.json: has 3 steps (") &&
                 Catch::Contains("which are taken as one: --step N takes one of them"));
  CHECK_THAT(warned("kineto_three_steps.json", 5), !Catch::Contains("taken as one"));
  CHECK_THAT(warned("kineto_small.json", 3),
             Catch::Contains("step 3 took the host 500.5 µs, and 189.9 µs from the first to the "
                             "last device work"));
}

TEST_CASE("what a device does for other steps during one of a recording is said, counted once") {
  const test::Scratch scratch;
  auto trace = nlohmann::json::parse(
      std::ifstream(test::source_dir() + "/tests/golden/inputs/kineto_three_steps.json"));
  // Step 5 is 1820 to 2050 on the device. Of step 4, the gather goes on until 1860 and the product,
  // beside it, until 1850.
  for (auto& event : trace["traceEvents"]) {
    if (event["cat"] != "kernel") continue;
    const int correlation = event["args"]["correlation"];
    if (correlation == 102) event["ts"] = 1700, event["dur"] = 160;
    if (correlation == 103) event["ts"] = 1730, event["dur"] = 120;
  }
  SimulateRequest request;
  request.sources = {{scratch.write("a.json", trace.dump())}, false, 5};
  const auto outcome = simulate(request);
  if (!outcome) FAIL(outcome.error().text());
  CHECK_THAT(fmt::format("{}", fmt::join(outcome->summary.warnings, "\n")),
             Catch::Contains("in step 5 the device works on other steps, too, for 40.0 µs of "
                             "230.0 µs: what waits for that stays where it was"));
}

TEST_CASE("of a prediction no step is chosen") {
  const test::Scratch scratch;
  SimulateRequest request;
  request.sources.paths = {test::source_dir() + "/traces/samples/tiny_fsdp2.toml"};
  auto outcome = simulate(request);
  REQUIRE(outcome);
  const std::string path = test::written(scratch.path("run.db"), outcome->run);
  const auto read = read_recorded({path}, 3);
  REQUIRE_FALSE(read);
  CHECK(read.error().text() ==
        "--step: chooses a step of a recorded run, and " + path + " is predicted");
}

TEST_CASE("a calibrated machine's range is that of its own shapes, of their kinds of ops") {
  auto schedule = load_schedule(test::source_dir() + "/traces/samples/tiny_fsdp2.toml",
                                {"cluster.hardware=host"}, {});
  REQUIRE(schedule);
  schedule->hardware.interval = {};
  const auto simulation = sim::simulate(schedule->graph, schedule->prices, schedule->engine);
  REQUIRE(simulation);
  const Ns step = simulation->classes[0].steady.time();
  const auto range = [&] { return step_ranges(*schedule, {step}).value().front(); };
  CHECK(range() == std::pair(step, step));
  schedule->hardware.residuals = {{OpKind::gemm, 0.5, 4}};
  const auto [low, high] = range();
  CHECK(low < step);
  CHECK(high > step);
  schedule->hardware.residuals = {{OpKind::all_gather, 0.5, 4}};  // a collective's is the links'
  CHECK(range() == std::pair(step, step));
}

TEST_CASE("whether it fits is a close call where the device ends within the range of the peak") {
  sim::Hardware hardware;
  hardware.interval.peak_low = 0.9;
  hardware.interval.peak_high = 1.2;
  const auto is_close = [&](Bytes capacity) {
    return is_close_call(100 * GiB, 1 * GiB, capacity, hardware);
  };
  CHECK_FALSE(is_close(91 * GiB - 1));  // it takes more in any case
  CHECK(is_close(91 * GiB));
  CHECK(is_close(121 * GiB - 1));
  CHECK_FALSE(is_close(121 * GiB));
}

TEST_CASE("a range has all times of the host at their factors, its own delays as well") {
  auto schedule = load_schedule(test::source_dir() + "/traces/samples/tiny_fsdp2.toml", {}, {});
  REQUIRE(schedule);
  REQUIRE(std::ranges::any_of(
      schedule->graph.programs.front().threads.front().actions(Section::body),
      [](const Action& action) { return action.kind == ActionKind::host_delay && action.a > 0; }));
  const auto simulation = sim::simulate(schedule->graph, schedule->prices, schedule->engine);
  REQUIRE(simulation);
  const Ns step = simulation->classes[0].steady.time();
  schedule->hardware.interval = {};
  schedule->hardware.interval.host_low = 0.5;
  schedule->hardware.interval.host_high = 2;
  // The host is behind all of this step.
  CHECK(step_ranges(*schedule, {step}).value().front() == std::pair(step / 2, step * 2));

  // A recording's delays have all of the host's part, and stay.
  for (Cost& cost : schedule->graph.costs) cost.kernels = 0;
  for (sim::CostTable& table : schedule->prices) {
    for (sim::Price& price : table.prices) price.host = 0;
    table.host = {};
  }
  const auto recorded = sim::simulate(schedule->graph, schedule->prices, schedule->engine);
  REQUIRE(recorded);
  const Ns time = recorded->classes[0].steady.time();
  CHECK(step_ranges(*schedule, {time}).value().front() == std::pair(time, time));
}

TEST_CASE("points of a sweep arrive as they were sent, or not at all") {
  std::vector<run::SweepPoint> points(2);
  points[0].index = 7;
  points[0].values = {"1", "bf16"};
  points[1].status = run::PointStatus::failed;
  points[1].error = "no";
  const std::string message = message_of(points);
  CHECK(points_of(message) == points);
  for (std::size_t size = 0; size < message.size(); ++size)
    CHECK_FALSE(points_of(message.substr(0, size)));
}

TEST_CASE("a front forgets the points that others have beaten") {
  PointFront front;
  run::SweepPoint point;
  point.status = run::PointStatus::fits;
  for (int i = 0; i < 100; ++i) {
    point.index = i;
    point.figures.times = run::PointFigures::Times();
    point.figures.times->step = 1000 - i;
    front.add(point);
  }
  REQUIRE(front.points().size() == 1);
  CHECK(front.points().front().index == 99);
}

TEST_CASE("a summary's JSON names the model of its memory") {
  SimulateRequest request;
  request.sources.paths = {test::source_dir() + "/traces/samples/thunder_tied_linear.txt"};
  for (const auto& [model, name] :
       {std::pair(MemoryModel::allocator, "allocator"), std::pair(MemoryModel::live, "live"),
        std::pair(MemoryModel::thunder_estimator, "thunder-estimator")}) {
    request.memory_model = model;
    const auto outcome = simulate(request);
    if (!outcome) FAIL(outcome.error().text());
    const auto json = nlohmann::json::parse(to_json(outcome->summary));
    CHECK(json["memory_model"] == name);
    CHECK(json["alloc_retries"].is_null() == (model != MemoryModel::allocator));
  }
}

TEST_CASE("what no command reads as a schedule is refused by what it is") {
  const auto database = sniff(std::string_view("SQLite format 3\0 and more", 25), "x.db");
  REQUIRE_FALSE(database);
  CHECK_THAT(database.error().text(),
             Catch::StartsWith("x.db: is a database of another program, "));
  const test::Scratch scratch;
  const std::string path =
      scratch.write("long.toml", "[model]\n" + std::string(3 * MiB, '#') + "\n");
  const auto schedule = load_schedule(path, {}, {});
  REQUIRE_FALSE(schedule);
  CHECK(schedule.error().text() ==
        path + ": is 3.0 MiB long, expected a workload of at most 1.0 MiB");
}
