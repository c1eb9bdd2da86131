// Run one schedule, calibrate on it, predict other schedules, and run those.
//
// Figures are medians of steps. The speed of a shared machine changes within minutes, so where a
// run misses its prediction the loop begins anew, calibration first, up to five times. Schedules
// are chosen so that they differ by far more than the noise: links are slow, and each choice
// changes what waits for them by 7 % of a step or more.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>
#include <catch2/catch.hpp>

#include "core/store/writer.h"
#include "tasks/calibrate.h"
#include "tasks/compare.h"
#include "tasks/execute.h"
#include "tasks/simulate.h"
#include "tests/support/places.h"
#include "tests/support/scratch.h"

using namespace foregather;

namespace {

constexpr double kTolerance = 0.15;
constexpr int kAttempts = 5;

using Texts = std::vector<std::string>;

Texts operator+(Texts a, const Texts& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct Schedule {
  std::string name;
  Texts sets, what_if;
};

struct Figures {
  double predicted = 0, measured = 0;  ///< ns of a step
};

class ClosedLoop {
 public:
  ClosedLoop(const test::Scratch& scratch, std::string source)
      : scratch_(scratch), source_(std::move(source)) {}

  tasks::ExecuteReport run(const Schedule& schedule) {
    tasks::ExecuteRequest request;
    request.source = source_;
    request.backend = "host";
    request.sets = schedule.sets;
    request.what_if = schedule.what_if;
    request.ranks = 4;
    request.steps = 4;
    ++runs_;
    request.output = path();
    auto report = tasks::execute(request);
    if (!report) FAIL(schedule.name << ": " << report.error().text());
    CHECK(report->run.backend.checked_collectives > 0);
    CHECK(report->run.backend.unchecked_collectives == 0);
    return std::move(*report);
  }

  void calibrate(const Schedule& schedule) {
    calibrated_on_ = schedule;
    run(schedule);
    tasks::CalibrateRequest request;
    request.sources = {path()};
    request.output = hardware_ = scratch_.path("host.toml");
    const auto report = tasks::calibrate_hardware(request);
    if (!report) FAIL(report.error().text());
  }

  tasks::Summary predict(const Schedule& schedule) const {
    tasks::SimulateRequest request;
    request.sources.paths = {source_};
    request.sets = schedule.sets + Texts{"cluster.hardware=" + hardware_};
    request.what_if = schedule.what_if;
    auto outcome = tasks::simulate(request);
    if (!outcome) FAIL(schedule.name << ": " << outcome.error().text());
    return std::move(outcome->summary);
  }

  Figures check(const Schedule& schedule) {
    INFO(schedule.name);
    Figures figures;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      if (attempt > 0) calibrate(Schedule(calibrated_on_));
      const tasks::Summary summary = predict(schedule);
      const tasks::ExecuteReport report = run(schedule);
      REQUIRE(report.run.step_time);
      figures.predicted = static_cast<double>(*summary.step_time());
      figures.measured = static_cast<double>(*report.run.step_time);
      check_peaks(summary, report);
      if (error(figures) <= kTolerance) break;
    }
    WARN(schedule.name << ": predicted " << figures.predicted / 1e6 << " ms, measured "
                       << figures.measured / 1e6 << " ms");
    CHECK(error(figures) <= kTolerance);
    return figures;
  }

  // Both agree which schedule is faster, and it matters: predicted from one calibration. The fast
  // one runs last.
  void check_sign(const Schedule& fast, const Schedule& slow) {
    const Figures longer = check(slow), shorter = check(fast);
    CHECK(static_cast<double>(*predict(fast).step_time()) <
          0.95 * static_cast<double>(*predict(slow).step_time()));
    CHECK(shorter.measured < longer.measured);
  }

  std::string path() const { return scratch_.path("run" + std::to_string(runs_) + ".db"); }
  const std::string& hardware() const { return hardware_; }

 private:
  static double error(const Figures& figures) {
    return std::abs(figures.predicted / figures.measured - 1);
  }
  static void check_peaks(const tasks::Summary& summary, const tasks::ExecuteReport& report) {
    const tasks::ClassFigures& expected = summary.classes.front();
    REQUIRE(report.run.ranks.size() == 4);
    for (const runtime::RankFigures& rank : report.run.ranks) {
      CHECK(rank.steady.peak_requested == expected.memory.peaks.requested);
      CHECK(rank.steady.peak_allocated == expected.memory.peaks.allocated);
      CHECK(rank.steady.peak_active == expected.memory.peaks.active);
      CHECK(rank.steady.peak_reserved == expected.memory.peaks.reserved);
      CHECK(rank.first.peak_reserved == expected.first_memory.peaks.reserved);
    }
  }

  const test::Scratch& scratch_;
  std::string source_, hardware_;
  Schedule calibrated_on_;
  int runs_ = 0;
};

const std::string kSample = test::source_dir() + "/traces/samples/tiny_fsdp2.toml";
const Texts kSlowLinks{"train.seq_len=64", "cluster.link_bandwidth_scale=0.1"};

}  // namespace

TEST_CASE("calibrated on one run, other schedules of the sample are predicted") {
  const test::Scratch scratch;
  ClosedLoop loop(scratch, kSample);
  loop.calibrate({"prefetch", kSlowLinks, {}});
  loop.check_sign({"prefetch", kSlowLinks, {}},
                  {"no prefetch", kSlowLinks + Texts{"parallel.backward_prefetch=none"}, {}});
  const Texts compiled =
      kSlowLinks + Texts{"parallel.strategy=deepcompile", "parallel.reduce_bucket_size=100000"};
  loop.check_sign({"fused downcast", compiled, {"fuse-downcast"}},
                  {"gathered in fp32", compiled, {}});
}

TEST_CASE("calibrated on one run, sharing a gather is predicted, and ops meet by their keys") {
  const test::Scratch scratch;
  scratch.write("tied.json",
                R"({"model_type": "llama", "vocab_size": 2048, "hidden_size": 128,
                    "intermediate_size": 384, "num_hidden_layers": 4, "num_attention_heads": 4,
                    "num_key_value_heads": 2, "max_position_embeddings": 256,
                    "hidden_act": "silu", "tie_word_embeddings": true, "rms_norm_eps": 1e-05})");
  const std::string source = scratch.write("tied.toml", R"(
[model]
config = "tied.json"
tied = "two-names"
[train]
micro_batch = 2
seq_len = 64
precision = "bf16-mixed"
[parallel]
strategy = "fsdp2"
world_size = 4
backward_prefetch = "none"
[cluster]
gpus_per_node = 4
link_bandwidth_scale = 0.1
)");
  ClosedLoop loop(scratch, source);
  loop.calibrate({"gathered twice", {}, {}});
  const Schedule once{"gathered once", {}, {"dedup-shared-params"}};
  loop.check_sign(once, {"gathered twice", {}, {}});

  tasks::SimulateRequest simulate;
  simulate.sources.paths = {source};
  simulate.sets = {"cluster.hardware=" + loop.hardware()};
  simulate.what_if = {"dedup-shared-params"};
  const auto outcome = tasks::simulate(simulate);
  REQUIRE(outcome);
  const std::string predicted = scratch.path("predicted.db");
  auto writer = store::RunWriter::create(predicted);
  REQUIRE(writer);
  REQUIRE(writer->write(outcome->run));
  REQUIRE(writer->finish());
  tasks::CompareRequest request;
  request.first = predicted;
  request.second = loop.path();
  const auto comparison = tasks::compare_runs(request);
  if (!comparison) FAIL(comparison.error().text());
  CHECK(comparison->matching.only_first == 0);
  CHECK(comparison->matching.of_second_alone().empty());
  CHECK(comparison->matching.matched > 300);
}
