#include "tasks/execute.h"

#include <algorithm>
#include <filesystem>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/store/reader.h"
#include "core/store/recording_writer.h"
#include "runtime/host/rating.h"
#include "tasks/any_run.h"
#include "tasks/schedule.h"
#include "tasks/simulate.h"
#include "tests/support/places.h"
#include "tests/support/scratch.h"

using namespace foregather;

namespace {

const std::string kExecuteSamples = test::source_dir() + "/traces/samples/";

tasks::ExecuteRequest request_of(const test::Scratch& scratch, const std::string& source) {
  tasks::ExecuteRequest request;
  request.source = source;
  request.backend = "host";
  request.output = scratch.path("run.db");
  request.steps = 3;
  return request;
}

std::string error_of(const tasks::ExecuteRequest& request) {
  const auto report = tasks::execute(request);
  REQUIRE_FALSE(report);
  CHECK(report.error().fault == Fault::input);
  CHECK_FALSE(std::filesystem::exists(request.output));
  return report.error().text();
}

}  // namespace

TEST_CASE("a job that needs more memory than there is, is refused before it begins") {
  const test::Scratch scratch;
  auto request = request_of(scratch, kExecuteSamples + "llama3_8b_fsdp2.toml");
  request.sets = {"cluster.hardware=h100_sxm"};
  request.ranks = 64;
  CHECK(error_of(request).find("and this machine has") != std::string::npos);
}

TEST_CASE("a job says how much of its work is done") {
  const test::Scratch scratch;
  auto request = request_of(scratch, kExecuteSamples + "tiny_fsdp2.toml");
  request.sets = {"train.seq_len=16", "model.layers=1"};
  request.ranks = 2;
  std::int64_t all = 0, ops = 0;
  const auto report = tasks::execute(request, [&](const tasks::ExecuteProgress& progress) {
    CHECK(progress.ops >= ops);
    CHECK(progress.ops <= progress.all);
    ops = progress.ops;
    all = progress.all;
  });
  REQUIRE(report);
  CHECK(all == report->run.ops);
}

TEST_CASE("the ranks of a dump are those of its schedule") {
  const test::Scratch scratch;
  tasks::SimulateRequest simulate;
  simulate.sources.paths = {kExecuteSamples + "tiny_fsdp2.toml"};
  simulate.sets = {"train.seq_len=16", "model.layers=1", "cluster.hardware=host"};
  simulate.dump = true;
  const auto outcome = tasks::simulate(simulate);
  REQUIRE(outcome);
  const std::string dump = scratch.write("schedule.fg", outcome->dump);
  auto request = request_of(scratch, dump);
  request.ranks = 3;
  CHECK(error_of(request).find("3 ranks, but " + dump + " is the schedule of 4") !=
        std::string::npos);
  request.ranks = 4;
  const auto report = tasks::execute(request);
  if (!report) FAIL(report.error().text());
  CHECK(report->world_size == 4);
  CHECK(report->run.steps == 3);
  // And it replays from its recording.
  tasks::SimulateRequest replay;
  replay.sources.paths = {request.output};
  replay.sources.step = 1;
  const auto replayed = tasks::simulate(replay);
  if (!replayed) FAIL(replayed.error().text());
  REQUIRE(replayed->summary.step_time());
  CHECK(*replayed->summary.step_time() == replayed->summary.measured_step_time());
}

TEST_CASE("of a recording's sets those are named that somebody asked for, with what they do") {
  const test::Scratch scratch;
  const auto hold = [](const std::vector<std::string>& warnings, const char* text) {
    return std::ranges::any_of(
        warnings, [&](const std::string& each) { return each.find(text) != std::string::npos; });
  };
  const std::string trace = test::source_dir() + "/tests/golden/inputs/kineto_small.json";
  auto request = request_of(scratch, trace);
  auto report = tasks::execute(request);
  if (!report) FAIL(report.error().text());
  CHECK_FALSE(hold(report->warnings, "cluster.hardware"));
  request.output = scratch.path("again.db");
  request.sets = {"cluster.hardware=host"};
  report = tasks::execute(request);
  if (!report) FAIL(report.error().text());
  CHECK(hold(report->warnings, "cluster.hardware only prices what a pass adds"));

  tasks::SimulateRequest replay;
  replay.sources.paths = {trace};
  replay.sets = {"allocator.conf=backend:native"};
  const auto replayed = tasks::simulate(replay);
  if (!replayed) FAIL(replayed.error().text());
  CHECK(hold(replayed->summary.warnings,
             "a recording's memory is not replayed: allocator.conf changes nothing"));
  CHECK_FALSE(hold(replayed->summary.warnings, "only price"));
}

TEST_CASE("the JSON of a run with expandable segments has the peaks that were predicted") {
  const test::Scratch scratch;
  auto request = request_of(scratch, kExecuteSamples + "tiny_fsdp2.toml");
  request.sets = {"train.seq_len=16", "model.layers=1", "cluster.hardware=host",
                  "allocator.conf=expandable_segments:True"};
  request.ranks = 2;
  const auto report = tasks::execute(request);
  if (!report) FAIL(report.error().text());
  const auto json = nlohmann::json::parse(tasks::to_json(*report));
  CHECK(json["schema"] == 1);
  CHECK(json["backend"] == "host");
  CHECK(json["output"] == request.output);
  CHECK(json["world_size"] == 2);
  CHECK(json["steps"] == 3);
  CHECK(json["oom"].is_null());
  CHECK(json["checked"]["collectives"] > 0);
  CHECK(json["step_time_ns"] > 0);

  tasks::SimulateRequest simulate;
  simulate.sources.paths = {kExecuteSamples + "tiny_fsdp2.toml"};
  simulate.sets = request.sets;
  simulate.sets.emplace_back("parallel.world_size=2");
  const auto outcome = tasks::simulate(simulate);
  if (!outcome) FAIL(outcome.error().text());
  const auto predicted = nlohmann::json::parse(tasks::to_json(outcome->summary));
  REQUIRE(json["ranks"].size() == 2);
  for (const auto& rank : json["ranks"])
    for (const char* peak : {"peak_requested_bytes", "peak_allocated_bytes", "peak_active_bytes",
                             "peak_reserved_bytes"}) {
      CHECK(rank["steady_step"][peak] == predicted[peak]);
      CHECK(rank["first_step"][peak] == predicted["first_step"][peak]);
    }
}

TEST_CASE("a recording that was cut short is read with a warning") {
  const test::Scratch scratch;
  const std::string path = scratch.path("cut.db");
  auto writer = store::RecordingWriter::create(path);
  REQUIRE(writer);
  run::RunInfo info;
  info.name = "job";
  info.kind = run::RunKind::measured;
  (*writer)->info(info);
  REQUIRE((*writer)->commit());
  const auto cut = tasks::load_any_run(path);
  REQUIRE(cut);
  REQUIRE(cut->warnings.size() == 1);
  CHECK(cut->warnings.front().find("was cut short") != std::string::npos);
  REQUIRE((*writer)->finish(run::RunState::failed));
  const auto failed = tasks::load_any_run(path);
  REQUIRE(failed);
  CHECK(failed->warnings.front().find("the job failed") != std::string::npos);
}

TEST_CASE(
    "a run that is out of memory says what for, and before which op, as its prediction does") {
  const test::Scratch scratch;
  auto request = request_of(scratch, kExecuteSamples + "tiny_fsdp2.toml");
  const auto runs_out = [&](const char* fraction) {
    request.sets = {"cluster.hardware=host",
                    fmt::format("allocator.conf=per_process_memory_fraction:{}", fraction)};
    request.output = scratch.path(fmt::format("{}.db", fraction));
    const auto report = tasks::execute(request);
    if (!report) FAIL(report.error().text());
    tasks::SimulateRequest simulate;
    simulate.sources.paths = {request.source};
    simulate.sets = request.sets;
    const auto predicted = tasks::simulate(simulate);
    REQUIRE(predicted);
    const auto run = nlohmann::json::parse(tasks::to_json(*report));
    auto expected = nlohmann::json::parse(tasks::to_json(predicted->summary))["oom"];
    REQUIRE(expected.is_object());
    CHECK(run["step_time_ns"].is_null());
    CHECK(run["oom"]["storage"] == expected["storage"]);
    CHECK(run["oom"]["requested_bytes"] == expected["requested_bytes"]);
    return std::pair(run["oom"]["op"], expected["op"]);
  };
  const auto [ran, predicted] = runs_out("0.001");
  // Any rank may be the first.
  const auto behind_rank = [](const std::string& op) { return op.substr(op.find('/')); };
  CHECK(behind_rank(ran) == behind_rank(predicted));
  CHECK(behind_rank(ran).starts_with("/s0/m0/model.layers.3.mlp/forward/"));
  // The parameters themselves do not fit: no op comes after.
  CHECK(runs_out("0.0001").first.is_null());
}

TEST_CASE("a what-if that makes one kind of op slower slows the device alone") {
  const test::Scratch scratch;
  auto request = request_of(scratch, kExecuteSamples + "tiny_fsdp2.toml");
  request.sets = {"train.seq_len=16", "model.layers=1"};
  request.ranks = 2;
  request.what_if = {"scale=host:2", "scale=gemm:0.1"};
  const auto report = tasks::execute(request);
  if (!report) FAIL(report.error().text());
  CHECK(std::ranges::count(report->warnings,
                           "--what-if scale=host changes prices alone: the host is as it is") == 1);
  // A product takes as long as the device is rated for at least, whatever else the machine does.
  const auto schedule = tasks::load_schedule(
      request.source, {"train.seq_len=16", "model.layers=1", "parallel.world_size=2"}, {});
  REQUIRE(schedule);
  const Graph& graph = schedule->graph;
  Ns products = 0;
  for (const Op& op : graph.ops)
    if (graph.at(op.cost).kind == OpKind::gemm)
      products += 10 * runtime::rated_time(graph.at(op.cost), runtime::Rating());
  CHECK(products > 300 * kMillisecond);
  CHECK(*report->run.step_time >= products);
}
