// Steps that were measured on a GPU, against what is predicted of them.
#include "tasks/validation/gpu_steps.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <string>

#include "tests/support/places.h"
#include "tests/support/scratch.h"

using namespace foregather;
using namespace foregather::tasks;
using Catch::Matchers::Contains;

namespace {

const std::string kMeasured = test::source_dir() + "/traces/measured/";
const std::string kStepColumns =
    "id,workload,settings,step_ms,host_step_ms,peak_allocated_bytes,peak_reserved_bytes\n";

std::string told(const std::string& rows) {
  const test::Scratch scratch;
  const auto steps = predict_gpu_steps(scratch.write("steps.csv", rows));
  return steps ? "" : steps.error().text();
}

double off(std::int64_t predicted, std::int64_t measured) {
  return std::abs(static_cast<double>(predicted - measured)) / static_cast<double>(measured);
}

}  // namespace

TEST_CASE(
    "measured steps: peaks are predicted to a thousandth, times of a busy device to an eighth") {
  const auto steps = predict_gpu_steps(kMeasured + "h200_steps.csv");
  REQUIRE(steps);
  REQUIRE(steps->size() == 36);
  for (const GpuStep& step : *steps) {
    INFO(step.id);
    CHECK(off(step.predicted_allocated, step.allocated) < 0.001);
    CHECK(off(step.predicted_reserved, step.reserved) < 0.14);
    if (step.waits_for_host())
      CHECK(step.predicted_step < step.step);  // a slow host
    else if (step.id.find("small-plain") !=
             std::string::npos)  // its forward waits for the host, its optimizer for the device
      CHECK(off(step.predicted_step, step.step) < 0.195);
    else
      CHECK(off(step.predicted_step, step.step) < 0.12);
  }
}

TEST_CASE("measured steps: a table that cannot be is refused at its place") {
  const std::string tiny = test::source_dir() + "/traces/samples/tiny_fsdp2.toml";
  CHECK_THAT(told("id,step_ms\none,1\n"), Contains("has no column 'workload'"));
  CHECK_THAT(told(kStepColumns + "one," + tiny + ",,0,1,1,1\n"),
             Contains("steps.csv:2:") && Contains("'0', expected a number from"));
  CHECK_THAT(told(kStepColumns + "one," + tiny + ",,1,1,1,much\n"), Contains("'much', expected"));
  CHECK_THAT(told(kStepColumns + "one," + tiny + ",train.nothing=1,1,1,1,1\n"),
             Contains("steps.csv:2:") && Contains("train.nothing"));
  CHECK_THAT(told(kStepColumns + "one," + tiny + ",,1e-10,1,1,1\n"), Contains("1e-10"));
  CHECK_THAT(told(kStepColumns + "one," + tiny + ",,1,1e300,1,1\n"), Contains("1e300"));
  CHECK_THAT(told(kStepColumns + "one," + tiny + ",train.micro_batch=100000,1,1,1,1\n"),
             Contains("steps.csv:2:") && Contains("runs out of memory"));
  CHECK_THAT(told(kStepColumns + "one,absent.toml,,1,1,1,1\n"), Contains("absent.toml"));
  CHECK(told(kStepColumns + "one," + tiny + ",train.micro_batch=1;train.seq_len=64,1,1,1,1\n")
            .empty());
}
