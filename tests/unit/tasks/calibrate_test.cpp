// `foregather calibrate` on real recordings, and what it refuses.
#include "tasks/calibrate.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/base/file.h"
#include "sim/cost/hardware.h"
#include "sim/cost/measured.h"
#include "tasks/device_hardware.h"
#include "tasks/import.h"
#include "tasks/import_run.h"
#include "tests/support/example_run.h"
#include "tests/support/places.h"
#include "tests/support/scratch.h"
#include "tests/support/skip.h"
#include "tests/support/written_run.h"

using namespace foregather;

namespace {

std::string recording(const char* name) {
  return test::source_dir() + "/tests/golden/inputs/" + name;
}

std::string fault(const tasks::CalibrateRequest& request) {
  const auto report = tasks::calibrate_hardware(request);
  return report ? "no fault" : report.error().text();
}

tasks::CalibrateReport calibrated(const std::string& path, const test::Scratch& folder) {
  auto report = tasks::calibrate_hardware({{path}, "", {}, folder.path("hw.toml")});
  if (!report) FAIL(report.error().text());
  return std::move(*report);
}

/// The held-out median over all distinct (kernel, shape).
double held_out(const char* relative) {
  const auto path = test::shared_data(relative);
  REQUIRE(path);
  const test::Scratch folder;
  const tasks::CalibrateReport report = calibrated(path->string(), folder);
  const auto loaded = sim::load_hardware(folder.path("hw.toml"));
  if (!loaded) FAIL(loaded.error().text());
  CHECK(loaded->measured->rows().size() == report.samples.rows.size());
  REQUIRE(report.calibration.all.held_out);
  CAPTURE(relative, report.samples.rows.size());
  return report.calibration.all.held_out->median;
}

}  // namespace

TEST_CASE("calibrate: GPUs by the names that drivers give them") {
  const auto of = [](const char* name) { return tasks::hardware_of_device(name).value_or("none"); };
  CHECK(of("NVIDIA H100 80GB HBM3") == "h100_sxm");
  CHECK(of("NVIDIA H100 PCIe") == "h100_pcie");
  CHECK(of("NVIDIA A100-SXM4-80GB") == "a100_80_sxm");
  CHECK(of("NVIDIA A100-SXM4-40GB") == "a100_40_sxm");
  CHECK(of("NVIDIA A100 80GB PCIe") == "a100_80_pcie");
  CHECK(of("A100-PCIE-40GB") == "a100_40_pcie");
  CHECK(of("Tesla V100-SXM2-16GB") == "v100_16_sxm");
  CHECK(of("Tesla V100-PCIE-32GB") == "v100_pcie");
  CHECK(of("NVIDIA GeForce RTX 5090") == "rtx_5090");
  CHECK(of("NVIDIA GeForce RTX 3090") == "rtx_3090");
  CHECK(of("NVIDIA GeForce RTX 3090 Ti") == "rtx_3090_ti");
  CHECK(of("NVIDIA GeForce RTX 4090 D") == "none");
  CHECK(of("NVIDIA A100-SXM-64GB") == "a100_64_sxm");
  CHECK(of("NVIDIA RTX PRO 6000 Blackwell Server Edition") == "rtx_pro_6000");
  CHECK(of("Tesla T4") == "t4");
  CHECK(of("NVIDIA GB300") == "gb300");
  CHECK(of("NVIDIA L4") == "l4");
  CHECK(of("NVIDIA L40") == "l40");
  CHECK(of("NVIDIA A10") == "a10");
  CHECK(of("NVIDIA A40") == "a40");
  CHECK(of("NVIDIA RTX A4000") == "none");
  CHECK(of("NVIDIA H100 NVL") == "h100_nvl");
  CHECK(of("NVIDIA GH200 480GB") == "gh200");
  CHECK(of("NVIDIA GH200 144G HBM3e") == "gh200_144");
  CHECK(of("NVIDIA H20-3e") == "h20_141");
  CHECK(of("gb200") == "gb200");
  CHECK(of("NVIDIA GeForce GTX 1080") == "none");
  CHECK(of("") == "none");
  for (const std::string_view name : sim::hardware_names())
    CHECK(tasks::hardware_of_device(name) == std::string(name));
}

TEST_CASE("calibrate: what it refuses") {
  const test::Scratch folder;
  const std::string out = folder.path("hw.toml");
  const std::string trace = recording("kineto_small.json");
  CHECK(fault({{trace}, "nothing", {}, out}).starts_with("unknown hardware 'nothing'"));
  CHECK(fault({{trace}, "", {}, trace}) ==
        trace + ": is one of the sources, expected another file to write");
  CHECK(fault({{trace}, "h100_sxm", {}, folder.path("no/such/hw.toml")}) != "no fault");
  CHECK(fault({{folder.path("none.json")}, "h100_sxm", {}, out}) != "no fault");
  const std::string empty = folder.write("empty.json", R"({"traceEvents": []})");
  CHECK(fault({{empty}, "h100_sxm", {}, out}) ==
        empty + ": holds no device work to fit: expected kernels or copies of a GPU");
  const std::string strange = folder.write(
      "strange.json",
      R"({"deviceProperties": [{"name": "Abacus"}], "traceEvents": [{"ph": "X", "cat": "kernel",
      "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2, "args": {}}]})");
  CHECK(fault({{strange}, "", {}, out})
            .starts_with(strange + ": was recorded on 'Abacus', which no built-in machine has"));
  const std::string nameless = folder.write(
      "nameless.json", R"({"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "pid": 0,
      "tid": 7, "ts": 1, "dur": 2, "args": {}}]})");
  CHECK(fault({{nameless}, "", {}, out})
            .starts_with(nameless + ": does not say which GPU it was recorded on: give --hw NAME, "
                                    "one of a10, "));
  const auto of = [&](const char* file, const char* gpu) {
    return folder.write(file, fmt::format(R"({{"deviceProperties": [{{"name": "{}"}}],
      "traceEvents": [{{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1,
      "dur": 2, "args": {{}}}}]}})",
                                          gpu));
  };
  CHECK(fault({{of("a.json", "NVIDIA A100-SXM4-40GB"), of("h.json", "NVIDIA H100 80GB HBM3")},
               "",
               {},
               out})
            .find("was recorded on 'NVIDIA H100 80GB HBM3', others of these on 'NVIDIA "
                  "A100-SXM4-40GB'") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(out));
}

TEST_CASE("calibrate: over a hardware file, from any folder, and never into it") {
  const test::Scratch folder;
  const std::string trace = recording("kineto_small.json");
  const std::string first = folder.path("first.toml");
  REQUIRE(tasks::calibrate_hardware({{trace}, "h100_sxm", {}, first}));
  const std::string before = read_file(first, MiB).value();
  CHECK_THAT(fault({{trace}, first, {}, first}), Catch::Contains("the hardware that --hw names"));
  CHECK(read_file(first, MiB).value() == before);

  std::filesystem::create_directory(folder.path("in"));
  const std::string second = folder.path("in/second.toml");
  const std::string third = folder.path("third.toml");
  REQUIRE(tasks::calibrate_hardware({{trace}, first, {}, second}));
  CHECK_THAT(read_file(second, MiB).value(), Catch::Contains("base = \"../first.toml\""));
  CHECK_THAT(fault({{trace}, second, {}, first}), Catch::Contains("the hardware that --hw names"));
  REQUIRE(tasks::calibrate_hardware({{trace}, second, {}, third}));
  CHECK(sim::load_hardware(third).has_value());
  std::string last = third, next = folder.path("3.toml");
  for (int i = 4; i < 12 && tasks::calibrate_hardware({{trace}, last, {}, next}); ++i)
    next = folder.path(std::to_string(i) + ".toml"),
    last = folder.path(std::to_string(i - 1) + ".toml");
  CHECK_THAT(fault({{trace}, last, {}, next}), Catch::Contains("too many files"));
  CHECK_FALSE(std::filesystem::exists(next));
}

TEST_CASE("calibrate: a database without shapes, and a prediction, are warned of") {
  const test::Scratch folder;
  run::Run run = test::example_run();
  run.about.kind = run::RunKind::predicted;
  run.kernel_launches.clear();
  const std::string path = test::written(folder.path("run.db"), run);
  const auto report = tasks::calibrate_hardware({{path}, "h100_sxm", {}, folder.path("hw.toml")});
  if (!report) FAIL(report.error().text());
  const auto says = [&](const std::string& part) {
    return std::ranges::any_of(report->warnings, [&](const std::string& warning) {
      return warning.find(part) != std::string::npos;
    });
  };
  CHECK(says(path + ": says no shapes of operators"));
  CHECK(says("some of it is a prediction"));
}

TEST_CASE("calibrate: a run that was imported says what its recording does") {
  if (!test::shared_data("kineto")) FOREGATHER_SKIP("the shared traces are absent");
  const test::Scratch folder;
  const std::string trace =
      (*test::shared_data("kineto") / "triosim/data__profiler__profiler_vgg13-iter41.json")
          .string();
  const auto imported =
      tasks::import_run(tasks::import_files({trace}).value(), std::nullopt, folder.path("run.db"));
  if (!imported) FAIL(imported.error().text());
  const auto of = [&](const std::string& source) {
    return tasks::calibrate_hardware({{source}, "a100_80_sxm", {}, folder.path("hw.toml")}).value();
  };
  const auto direct = of(trace), again = of(folder.path("run.db"));
  CHECK(again.samples.with_shapes == direct.samples.with_shapes);
  CHECK(again.figures.size() == direct.figures.size());
  REQUIRE(again.samples.rows.size() == direct.samples.rows.size());
  for (std::size_t i = 0; i < direct.samples.rows.size(); ++i) {
    CHECK(again.samples.rows[i].cost == direct.samples.rows[i].cost);
    CHECK(again.samples.rows[i].threads == direct.samples.rows[i].threads);
    CHECK(again.samples.rows[i].time == direct.samples.rows[i].time);
  }
}

TEST_CASE("calibrate: JSON of the same figures") {
  const test::Scratch folder;
  const auto report = tasks::calibrate_hardware(
      {{recording("kineto_small.json")}, "a100_80_sxm", {}, folder.path("hw.toml")});
  REQUIRE(report);
  const auto json = nlohmann::json::parse(tasks::to_json(*report));
  CHECK(json["base"] == "a100_80_sxm");
  CHECK(json["all"]["shapes"] == report->samples.rows.size());
  CHECK(json["mechanisms"].size() == report->calibration.mechanisms.size());
}

TEST_CASE("calibrate: JSON has the figures that changed, and what is left of errors") {
  tasks::CalibrateReport report;
  report.figures = {{"efficiency.gemm", "gemm bf16", 0.5, 0.75}};
  sim::Mechanism mechanism;
  mechanism.name = "gemm bf16";
  mechanism.shapes = 12;
  mechanism.held_out = sim::Errors{6, 0.05, 0.125};
  mechanism.extrapolated = 0.25;
  report.calibration.mechanisms = {mechanism};
  report.calibration.residuals = {{OpKind::gemm, 0.75, 1.5}};
  const auto json = nlohmann::json::parse(tasks::to_json(report));
  CHECK(json["device"].is_null());
  CHECK(json["figures"] == nlohmann::json::parse(R"([{"figure": "efficiency.gemm",
    "mechanism": "gemm bf16", "base": 0.5, "value": 0.75}])"));
  const auto& row = json["mechanisms"][0];
  CHECK(row["held_out"] == nlohmann::json::parse(R"({"shapes": 6, "median": 0.05, "p90": 0.125})"));
  CHECK(row["extrapolated"] == 0.25);
  CHECK(json["all"]["extrapolated"].is_null());
  CHECK(json["residuals"] == nlohmann::json::parse(R"({"gemm": [0.75, 1.5]})"));
}

TEST_CASE("calibrate: a file of many sources names the first") {
  const test::Scratch folder;
  const auto text_of = [&](std::size_t sources) {
    tasks::CalibrateRequest request{{}, "h100_sxm", {}, folder.path("hw.toml")};
    for (std::size_t i = 0; i < sources; ++i)
      request.sources.push_back(folder.write(
          fmt::format("rank{}.json", i),
          fmt::format(R"({{"distributedInfo": {{"rank": {}}}, "traceEvents": [{{"ph": "X",
            "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2}}]}})",
                      i)));
    const auto report = tasks::calibrate_hardware(request);
    if (!report) FAIL(report.error().text());
    return read_file(request.output, MiB).value();
  };
  CHECK_THAT(text_of(3), Catch::Contains("rank0.json, rank1.json, rank2.json"));
  CHECK_THAT(text_of(4), Catch::Contains("rank0.json and 3 more"));
}

TEST_CASE("calibrate: half of a recording's shapes predict the others within 8 %") {
  if (!test::shared_data("kineto")) FOREGATHER_SKIP("the shared traces are absent");
  CHECK(held_out("kineto/tracelens/traces__h100__Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz") < 0.08);
  CHECK(held_out("kineto/triosim/data__profiler__profiler_vgg13-iter41.json") < 0.08);
  CHECK(held_out("kineto/kineto/samples__resnet50_num_workers_0__worker0.1623143089861.pt.trace."
                 "json.gz") < 0.08);
}

TEST_CASE("calibrate: recordings without shapes have grids") {
  const auto path = test::shared_data("nsys/nsys_ai/tests__fixtures__h100_2gpu_1s.sqlite");
  if (!path) FOREGATHER_SKIP("the shared traces are absent");
  const test::Scratch folder;
  const auto report =
      tasks::calibrate_hardware({{path->string()}, "h100_sxm", {}, folder.path("hw.toml")});
  if (!report) FAIL(report.error().text());
  CHECK(report->samples.with_shapes == 0);
  CHECK(report->samples.rows.size() > 20);
  REQUIRE(report->calibration.all.inside);
  CHECK(report->calibration.all.inside->median < 0.15);
}
