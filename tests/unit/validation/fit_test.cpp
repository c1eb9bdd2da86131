// What of the cost model is fitted, to results that were made with it.
#include "tasks/validation/fit.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "tasks/validation/gpu_steps.h"
#include "tasks/validation/predict_row.h"
#include "tests/support/places.h"
#include "tests/unit/validation/measured_table.h"
#include "tests/unit/validation/published_rows.h"

using namespace foregather;
using namespace foregather::tasks;
using namespace foregather::test;
using Catch::Matchers::Contains;

namespace {

std::string csv_line(const MeasuredRow& row, const std::string& group, double step) {
  std::string config;
  for (const char c : row.config) config += c == '"' ? std::string(2, '"') : std::string(1, c);
  return fmt::format(
      "A,{},{},1,1,1,bf16,bf16,{},fp32,,none,none,1,flash,adamw_fused,,,,\"{}\",nvswitch,unknown,,{"
      "},"
      "{},{},{},2,4096,{},,\n",
      group, row.strategy, row.compute, config, row.id, row.gpu, *row.gpus, *row.nodes, step);
}

}  // namespace

TEST_CASE("a fit finds the figures that step times were made with") {
  const Folder folder;
  const std::string truth =
      "[compute]\nrank_spread = { value = 0.02, unit = \"1\", source = \"truth\" }\n"
      "sustained_clock = { value = 0.82, unit = \"1\", source = \"truth\" }\n"
      "memory_bound_power = { value = 0.7, unit = \"1\", source = \"truth\" }\n"
      "[efficiency]\ngemm_f8 = { value = 0.7, unit = \"1\", source = \"truth\" }\n";
  std::string text = kColumns;
  for (const std::int64_t gpus : {8, 64})
    for (const char* compute : {"bf16", "fp8_tensorwise"}) {
      MeasuredRow row = heavy_row(fmt::format("{}-{}", compute, gpus), gpus);
      row.compute = compute;
      const RowPrediction prediction = predict_row(row, folder.path.string(), truth);
      CAPTURE(prediction.skipped);
      REQUIRE(prediction.is_predicted());
      text +=
          csv_line(row, fmt::format("{} GPUs", gpus), static_cast<double>(prediction.step) / 1e9);
    }
  std::vector<FitProgress> progress;
  const auto found = fit(folder.write("m.csv", text), folder.path.string(), {},
                         [&](const FitProgress& now) { progress.push_back(now); });
  if (!found) FAIL(found.error().text());
  REQUIRE(progress.size() == 4);
  CHECK(progress.front().done == 1);
  CHECK(progress.back().done == 4);
  CHECK(progress.back().all == 4);
  REQUIRE(found->figures.size() == 5);
  CHECK(found->figures[0].value == Approx(0.02));
  CHECK(found->figures[1].value == Approx(0.82));
  CHECK(found->figures[2].value == Approx(0.7));
  CHECK(found->figures[3].value == Approx(0.7));
  CHECK(found->figures[3].groups == 2);
  CHECK(*found->median < 1e-6);
  CHECK_THAT(fit_text(*found), Contains("compute.rank_spread = 0.020"));
}

TEST_CASE("a fit takes steps measured on a GPU as a group of their own") {
  const Folder folder;
  const auto table = [&](double milliseconds) {
    return folder.write(
        "steps.csv",
        fmt::format("id,workload,settings,step_ms,host_step_ms,peak_allocated_bytes,"
                    "peak_reserved_bytes\nx,{}/traces/measured/llama_1b.toml,model.layers=2;"
                    "train.seq_len=4096,{:.6f},0.001,1,1\n",
                    test::source_dir(), milliseconds));
  };
  const auto step = [&](double clock) {
    const auto steps = predict_busy_gpu_steps(
        table(1), folder.path.string(),
        fmt::format("[compute]\nsustained_clock = {{ value = {}, unit = \"1\", source = \"truth\" "
                    "}}\nmemory_bound_power = {{ value = 1, unit = \"1\", source = \"truth\" }}\n",
                    clock));
    REQUIRE(steps);
    REQUIRE(steps->size() == 1);
    return static_cast<double>(steps->front().predicted_step) / 1e6;
  };
  const MeasuredRow row = heavy_row("x", 8);
  const RowPrediction prediction = predict_row(row, folder.path.string());
  const std::string published = folder.write(
      "m.csv",
      kColumns + csv_line(row, "published", static_cast<double>(prediction.step) / 1e9 * 10));
  // The published step is out of reach; the clock is the measured step's.
  const auto slow = fit(published, folder.path.string(), table(step(0.80)));
  const auto fast = fit(published, folder.path.string(), table(step(0.88)));
  REQUIRE((slow && fast));
  CHECK(slow->figures[1].value == Approx(0.80));
  CHECK(fast->figures[1].value == Approx(0.88));
  CHECK(fast->figures[1].groups == 2);
  CHECK_FALSE(fit(published, folder.path.string(), "none.csv").has_value());
}

TEST_CASE("a fit takes what a what-if changes from machines that are slower than described") {
  const Folder folder;
  const auto truth = [](double gemm_f8) {
    return fmt::format(
        "[compute]\nrank_spread = {{ value = 0, unit = \"1\", source = \"truth\" }}\n"
        "sustained_clock = {{ value = 0.88, unit = \"1\", source = \"truth\" }}\n"
        "[efficiency]\ngemm_f8 = {{ value = {}, unit = \"1\", source = \"truth\" }}\n",
        gemm_f8);
  };
  std::string text = kColumns;
  // Two groups hold the clock where it is; the third is slower at both of its rows alike.
  for (const char* group : {"a", "b", "slower"})
    for (const char* compute : {"bf16", "fp8_tensorwise"}) {
      const bool is_slower = std::string_view(group) == "slower";
      if (!is_slower && std::string_view(compute) != "bf16") continue;
      MeasuredRow row = heavy_row(fmt::format("{}-{}", group, compute), 8);
      row.compute = compute;
      const RowPrediction prediction = predict_row(row, folder.path.string(), truth(0.65));
      REQUIRE(prediction.is_predicted());
      text += csv_line(row, group,
                       static_cast<double>(prediction.step) / 1e9 * (is_slower ? 1.12 : 1.0));
    }
  const auto found = fit(folder.write("m.csv", text), folder.path.string());
  if (!found) FAIL(found.error().text());
  CHECK(found->figures[1].value == Approx(0.88));
  CHECK(found->figures[3].value == Approx(0.65));
}
