// What `compare` does with its two sides.
#include "tasks/compare.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/store/reader.h"
#include "tasks/any_run.h"
#include "tests/support/example_run.h"
#include "tests/support/places.h"
#include "tests/support/scratch.h"
#include "tests/support/skip.h"
#include "tests/support/written_run.h"

using namespace foregather;

namespace {

std::string written(const test::Scratch& folder, const char* name, const run::Run& run) {
  return test::written(folder.path(name), run);
}

tasks::Comparison compared(const tasks::CompareRequest& request) {
  auto comparison = tasks::compare_runs(request);
  if (!comparison) FAIL(comparison.error().text());
  return std::move(*comparison);
}

std::string compare_fault(const tasks::CompareRequest& request) {
  const auto comparison = tasks::compare_runs(request);
  return comparison ? "" : comparison.error().text();
}

// Whose step was finished.
run::Run whole_example() {
  run::Run run = test::example_run();
  run.failures.clear();
  return run;
}

std::string source(const char* path) { return test::source_dir() + "/" + path; }

}  // namespace

TEST_CASE("compare: ranks are chosen on each side") {
  const test::Scratch folder;
  const std::string path = written(folder, "run.db", whole_example());
  tasks::CompareRequest request{path, path, {}, {{2, 0}}, {}};
  const tasks::Comparison other = compared(request);
  CHECK(other.first.rank == 2);
  CHECK(other.first.step_time == 50);
  CHECK(other.second.step_time == 60);
  CHECK(other.step_time_error() == Approx(-1.0 / 6));
  request.ranks = {{5, 0}};
  CHECK(compare_fault(request) == path + ": has no rank 5, expected one such as 0, 2");
}

TEST_CASE("compare: a step is chosen of measured runs alone") {
  const test::Scratch folder;
  run::Run run = whole_example();
  run.about.kind = run::RunKind::predicted;
  const std::string path = written(folder, "run.db", run);
  tasks::CompareRequest request{path, path, 1, {}, {}};
  CHECK(compare_fault(request) ==
        "--step: chooses a step of a measured run, and both sides are predicted");
}

TEST_CASE("compare: what a recording does not know of waiting for ranks is no 0") {
  const test::Scratch folder;
  run::Run alone = whole_example();
  alone.about.kind = run::RunKind::measured;
  alone.ops.transfer = alone.ops.start;
  const std::string a = written(folder, "alone.db", alone);
  const std::string b = written(folder, "all.db", whole_example());
  const tasks::Comparison comparison = compared({a, b, {}, {}, {}});
  CHECK_FALSE(comparison.first.knows_waits);
  CHECK(comparison.second.busy.wait == 5);
  REQUIRE_FALSE(comparison.warnings.empty());
  CHECK(comparison.warnings.back().starts_with(a + ": does not tell what its collectives waited"));
  const auto json = nlohmann::json::parse(tasks::to_json(comparison));
  CHECK(json["first"]["comm_wait_ns"].is_null());
  CHECK(json["second"]["comm_wait_ns"] == 5);
}

TEST_CASE("compare: the rank that others wait for has waited for nobody") {
  const test::Scratch folder;
  run::Run run = whole_example();
  run.about.kind = run::RunKind::measured;
  const std::string path = written(folder, "run.db", run);
  const tasks::Comparison comparison = compared({path, path, {}, {{2, 0}}, {}});
  CHECK(comparison.first.busy.wait + comparison.second.busy.wait == 5);
  CHECK(comparison.first.knows_waits);
  CHECK(comparison.second.knows_waits);
}

TEST_CASE("compare: both runs and their groups go to one database") {
  const test::Scratch folder;
  run::Run slow = test::example_run();
  slow.ops.end[2] += 5;
  const std::string a = written(folder, "a.db", test::example_run());
  const std::string b = written(folder, "b.db", slow);
  const std::string out = folder.path("out.db");
  tasks::CompareRequest request{a, b, {}, {}, out};
  const tasks::Comparison comparison = compared(request);
  CHECK(store::run_names(out).value() == std::vector<std::string>{"example", "example-2"});
  const auto stored = store::read_comparisons(out);
  REQUIRE(stored);
  REQUIRE(stored->size() == 1);
  CHECK(stored->front().runs[1] == "example-2");
  CHECK(stored->front().group_of == comparison.matching.group_of);
  CHECK(stored->front().groups[2].time[1] == 25);
  request.database = b;
  CHECK(compare_fault(request) == b + ": is an input, expected another file to write");
  request.second = a;
  request.database = out;
  compared(request);
  CHECK(store::run_names(out)->size() == 1);
}

TEST_CASE("compare: a workload against a recording, both as they are") {
  const tasks::Comparison comparison = compared({source("traces/samples/tiny_fsdp2.toml"),
                                                 source("tests/golden/inputs/kineto_small.json"),
                                                 {},
                                                 {},
                                                 {}});
  CHECK_FALSE(comparison.first.is_measured);
  CHECK(comparison.second.is_measured);
  CHECK(comparison.second.step_time == 189'875);
  CHECK(comparison.first.memory.total() > 0);
}

TEST_CASE("compare: JSON lists all that changed and all that met nothing") {
  run::Run first = whole_example();
  run::Run second = first;
  second.about.name = "other";
  for (Phase& phase : second.ops.phase) phase = Phase::optimizer;
  const test::Scratch folder;
  const auto json = nlohmann::json::parse(tasks::to_json(
      compared({written(folder, "a.db", first), written(folder, "b.db", second), {}, {}, {}})));
  CHECK(json["unmatched_predicted"] == 3);
  CHECK(json["only_first"].size() == 3);
  CHECK(json["only_second"][0]["key"] == "layers.0.attn/optimizer/gemm");
  CHECK(json["first"]["comm_wait_ns"] == 5);
  CHECK(json["first"]["comm_transfer_ns"] == 15);
  CHECK(json["first"]["critical_path"]["by_kind"]["all_gather"] == 15);
  CHECK(json["first"]["critical_path"]["gaps_by_reason"]["stream"] == 10);
  CHECK(json["first"]["critical_path"]["longest"][0]["op"] ==
        "r2/s1/m0/layers.0.attn/forward/gemm/0");
  CHECK(json["memory_by_cause"]["unsharded_parameter"]["difference_bytes"] == 0);
}

TEST_CASE("compare: a step that ran out of memory has no times") {
  const test::Scratch folder;
  const tasks::Comparison comparison = compared({written(folder, "a.db", test::example_run()),
                                                 written(folder, "b.db", whole_example()),
                                                 {},
                                                 {},
                                                 {}});
  CHECK(comparison.first.is_cut);
  CHECK_FALSE(comparison.second.is_cut);
  CHECK_FALSE(comparison.step_time_error());
  CHECK(comparison.peak_memory_error() == 0);
  REQUIRE(comparison.warnings.size() == 1);
  CHECK(comparison.warnings[0].find("ran out of memory in the step") != std::string::npos);
  const auto json = nlohmann::json::parse(tasks::to_json(comparison));
  CHECK(json["first"]["step_time_ns"].is_null());
  CHECK(json["first"]["critical_path"].is_null());
  CHECK(json["exposed_comm"]["predicted_ns"].is_null());
  CHECK(json["exposed_comm"]["measured_ns"] == 15);
  CHECK(json["second"]["step_time_ns"] == 60);
}

TEST_CASE("compare: a pipe, which can be read but once, is no run") {
  const test::Scratch folder;
  const std::string pipe = folder.path("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const auto run = tasks::load_any_run(pipe);
  REQUIRE_FALSE(run.has_value());
  CHECK(run.error().text().find("is not a regular file") != std::string::npos);
}

TEST_CASE("compare: a memory snapshot has memory alone") {
  const auto path = test::shared_data("memsnap/silmont/memory_forward_bf16_128.pickle");
  if (!path) FOREGATHER_SKIP("the shared snapshots are absent");
  const tasks::Comparison comparison =
      compared({source("traces/samples/tiny_fsdp2.toml"), path->string(), {}, {}, {}});
  CHECK_FALSE(comparison.step_time_error());
  CHECK(comparison.peak_memory_error());
  CHECK(comparison.second.memory.by_cause[static_cast<std::size_t>(Cause::unknown)] ==
        comparison.second.peak_allocated);
}

TEST_CASE("compare: two machines, or two numbers of ranks, are warned of") {
  const test::Scratch folder;
  const std::string predicted = written(folder, "predicted.db", whole_example());
  run::Run run = whole_example();
  run.about.kind = run::RunKind::measured;
  const auto warned = [&](const std::string& hardware, std::uint32_t ranks) {
    run.about.hardware = hardware;
    run.about.world_size = ranks;
    const std::string measured = written(folder, "measured.db", run);
    std::vector<std::string> texts;
    for (const std::string& text : compared({predicted, measured, {}, {}, {}}).warnings)
      if (text.starts_with(predicted + " ")) texts.push_back(text);
    return texts;
  };
  using Texts = std::vector<std::string>;
  const std::string measured = folder.path("measured.db");
  CHECK(warned("host", 4) == Texts{predicted + " is of h100_sxm, " + measured +
                                   " of host: times differ by the hardware, too"});
  CHECK(warned("h100_sxm", 2) ==
        Texts{predicted + " has 4 ranks, " + measured + " has 2: they are two jobs"});
  CHECK(warned("NVIDIA H100 80GB HBM3", 4).empty());
  CHECK(warned("", 1).empty());      // a recording that does not say
  CHECK(warned("mine", 4).empty());  // a calibrated file
}

TEST_CASE("compare: a step of nothing, and a run without ranks, are refused") {
  const test::Scratch folder;
  run::Run idle;
  idle.about.name = "idle";
  run::StepInfo step;
  step.rank_class = idle.add(run::ClassInfo{idle.text("rank"), {0}});
  step.kind = run::StepKind::steady;
  step.number = 1;
  step.end = 10;
  idle.add(step);
  const std::string good = written(folder, "good.db", whole_example());
  const std::string path = written(folder, "idle.db", idle);
  CHECK(compare_fault({path, good, {}, {}, {}}) ==
        fmt::format("{}: has neither device work nor memory in step {} to compare", path,
                    idle.steps.front().number));
  run::Run empty;
  empty.about.name = "empty";
  const std::string none = written(folder, "none.db", empty);
  CHECK(compare_fault({good, none, {}, {}, {}}) == none + ": has no ranks to compare");
  CHECK(compare_fault({none, good, {}, {}, {}}) == none + ": has no ranks to compare");
}

TEST_CASE("compare: the error of a peak is that of reserved memory, or else of allocated") {
  tasks::Comparison comparison;
  CHECK_FALSE(comparison.peak_memory_error());
  comparison.first.peak_allocated = 3 * GiB;
  comparison.second.peak_allocated = 2 * GiB;
  CHECK(comparison.peak_memory_error() == 0.5);
  comparison.first.peak_reserved = 3 * GiB;
  CHECK(comparison.peak_memory_error() == 0.5);
  comparison.second.peak_reserved = 4 * GiB;
  CHECK(comparison.peak_memory_error() == -0.25);
}

TEST_CASE("compare: the runs of a database are named where there are several") {
  const test::Scratch folder;
  const std::string one = written(folder, "one.db", whole_example());
  const std::string two = folder.path("two.db");
  compared({one, written(folder, "b.db", whole_example()), {}, {}, two});
  CHECK(tasks::runs_in({one, two, two + ":example", "trace.json"}).value() ==
        std::vector<std::string>{one, two + ":example", two + ":example-2", two + ":example",
                                 "trace.json"});
}
