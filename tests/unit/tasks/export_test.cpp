// Runs through the Chrome writer and back through the reader of torch.profiler's traces: what a
// viewer sees has no faults, and the figures stay.
#include "tasks/export.h"

#include <algorithm>
#include <filesystem>
#include <catch2/catch.hpp>

#include "core/compare/exposed.h"
#include "core/compare/recorded_busy.h"
#include "core/rebuild/measured_run.h"
#include "core/rebuild/processes.h"
#include "core/run/key.h"
#include "tasks/import.h"
#include "tasks/simulate.h"
#include "tests/support/chrome_trace.h"
#include "tests/support/example_run.h"
#include "tests/support/places.h"
#include "tests/support/scratch.h"
#include "tests/support/skip.h"
#include "tests/support/written_run.h"
#include "traces/kineto.h"

using namespace foregather;

namespace {

run::Recording imported(const std::string& text) {
  const auto source = traces::text_of(text);
  auto trace = traces::read_kineto(*source, "export.json");
  REQUIRE(trace);
  CHECK(trace->recording.dropped.empty());
  return std::move(trace->recording);
}

void check_same(const compare::BusyTimes& expected, const compare::BusyTimes& found) {
  CHECK(found.ops == expected.ops);
  CHECK(found.compute == expected.compute);
  CHECK(found.comm == expected.comm);
  CHECK(found.exposed == expected.exposed);
  for (std::size_t kind = 0; kind < compare::kOpKinds; ++kind) {
    CHECK(found.by_kind[kind].count == expected.by_kind[kind].count);
    CHECK(found.by_kind[kind].busy == expected.by_kind[kind].busy);
  }
}

// What the step's ops are called, but for the number of a communicator's op.
std::vector<std::string> keys_of(run::RunView run, run::StepRow step) {
  std::vector<std::string> keys;
  const auto ops = run::ops_of(run, step);
  for (std::size_t row = ops.first; row < ops.last; ++row) {
    const std::string key = run::op_key(run, run::OpRow(row));
    keys.push_back(key.substr(0, key.find('@')));
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

// Every step of a run of one class, out and in again.
void check_steps(run::RunView run, const run::Recording& recording) {
  const run::Recording* const recordings[] = {&recording};
  const auto again = rebuild::measured_run(recordings, std::nullopt);
  REQUIRE(again);
  for (const std::string& warning : again->warnings)
    CHECK_THAT(warning, Catch::Contains("one process drives 2 devices"));
  CHECK(again->run.about.kind == run.about.kind);
  REQUIRE(again->run.steps.size() == run.steps.size());
  for (std::size_t s = 0; s < run.steps.size(); ++s) {
    INFO("step " << run.steps[s].number);
    CHECK(again->run.steps[s].number == run.steps[s].number);
    CHECK(again->run.steps[s].kind == run.steps[s].kind);
    CHECK(keys_of(again->run, run::StepRow(s)) == keys_of(run, run::StepRow(s)));
    check_same(compare::busy_times(run, run::StepRow(s)),
               compare::busy_times(again->run, run::StepRow(s)));
  }
  if (run.about.kind == run::RunKind::predicted) return;
  REQUIRE(again->run.collectives.size() == run.collectives.size());
  for (std::size_t row = 0; row < run.collectives.size(); ++row) {
    const run::CollectiveRecord& record = again->run.collectives[row];
    CHECK(record.in_elements == run.collectives[row].in_elements);
    CHECK(record.sequence == run.collectives[row].sequence);
    CHECK(again->run.text_of(record.dtype) == run.text_of(run.collectives[row].dtype));
  }
}

void check_same(const compare::RecordedBusy& expected, const compare::RecordedBusy& found) {
  CHECK(found.activities == expected.activities);
  CHECK(found.kernels == expected.kernels);
  CHECK(found.comm_kernels == expected.comm_kernels);
  CHECK(found.kernel_time == expected.kernel_time);
  CHECK(found.comm == expected.comm);
  CHECK(found.compute == expected.compute);
  CHECK(found.overlap == expected.overlap);
  CHECK(found.busy == expected.busy);
}

}  // namespace

TEST_CASE("export: predicted runs, as a viewer sees them and imported again") {
  for (const char* sample : {"tiny_fsdp2", "nested_fsdp1", "moe_fsdp1", "roberta_1gb_slow_network",
                             "openvla_zero3", "openvla_deepcompile", "gpt2_ddp"}) {
    INFO(sample);
    tasks::SimulateRequest request;
    request.sources.paths = {fmt::format("{}/traces/samples/{}.toml", test::source_dir(), sample)};
    const auto outcome = tasks::simulate(request);
    REQUIRE(outcome);
    const run::Run& run = outcome->run;
    const std::string text = test::chrome_text(run);
    const auto view = test::read_chrome(text);
    CHECK(view.faults == std::vector<std::string>{});
    CHECK(view.arrows.size() >= run.ops.size());
    check_steps(run, imported(text));

    // The causes add up to the allocated bytes; their largest sum is the peak.
    const auto& counters = view.counters.at(1);
    std::vector<std::pair<Ns, std::int64_t>> changes;
    for (const auto& [name, points] : counters) {
      if (!name.starts_with("held by ")) continue;
      std::int64_t before = 0;
      for (const auto& [time, bytes] : points) {
        changes.emplace_back(time, bytes - before);
        before = bytes;
      }
    }
    std::stable_sort(changes.begin(), changes.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    const run::StepInfo& steady = run.steps.back();
    const auto& curve = counters.at("memory allocated");
    CHECK(std::max_element(curve.begin(), curve.end(), [](const auto& a, const auto& b) {
            return a.second < b.second;
          })->second == std::max(run.steps.front().peak_allocated, steady.peak_allocated));
    std::size_t i = 0;
    std::int64_t held = 0;
    bool adds_up = true;
    for (std::size_t point = 0; point < curve.size(); ++point) {
      if (point + 1 < curve.size() && curve[point + 1].first == curve[point].first) continue;
      for (; i < changes.size() && changes[i].first <= curve[point].first; ++i)
        held += changes[i].second;
      adds_up = adds_up && held == curve[point].second;
    }
    CHECK(adds_up);
    CHECK(counters.at("memory reserved").size() == curve.size());
  }
}

TEST_CASE("export: recorded runs, as a viewer sees them and imported again") {
  const auto data = test::shared_data("");
  if (!data) FOREGATHER_SKIP("the shared data are absent");
  struct Case {
    const char* path;
    bool is_whole;  ///< the steps launched all of its device work
  };
  for (const Case& recorded :
       {Case{"kineto/megatron_tp8/kineto_0.json.gz", true},
        Case{"kineto/hta/data__timeline_analysis__sampled_rank-0.json.gz", true},
        Case{"kineto/hta/data__nccl_parser_config__nccl_data.json.gz", true},
        Case{"kineto/hta/trace_diff__control__control.json.gz", true},
        Case{"kineto/hta/critical_path__cuda_event_sync_multi_stream__event_sync_trace.json.gz",
             true},
        Case{"kineto/tracelens/traces__h100__Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz", false},
        Case{"nsys/nsys_ai/tests__fixtures__mfu_2gpu_before.sqlite", true}}) {
    INFO(recorded.path);
    const auto files = tasks::import_files({(*data / recorded.path).string()});
    REQUIRE(files);
    const run::Recording& original = *files->front().recording;
    const run::Recording* const recordings[] = {&original};
    const auto measured = rebuild::measured_run(recordings, std::nullopt);
    REQUIRE(measured);
    const std::string text = test::chrome_text(measured->run);
    const auto view = test::read_chrome(text);
    CHECK(view.faults == std::vector<std::string>{});
    bool has_launches = false;
    for (std::size_t op = 0; op < measured->run.ops.size(); ++op)
      has_launches = has_launches || measured->run.ops.launch[op];
    CHECK(std::any_of(view.arrows.begin(), view.arrows.end(), [](const test::ChromeArrow& arrow) {
            return arrow.category == "ac2g";
          }) == has_launches);
    const run::Recording again = imported(text);
    CHECK(again.calls.size() == original.calls.size());
    CHECK(again.activities.size() == measured->run.ops.size());
    check_steps(measured->run, again);
    CHECK((measured->run.ops.size() == original.activities.size()) == recorded.is_whole);
    if (recorded.is_whole)
      check_same(compare::recorded_figures(original).all, compare::recorded_figures(again).all);
  }
}

TEST_CASE("export: what is read back of a prediction is its steady step, and no measurement") {
  const test::Scratch folder;
  tasks::SimulateRequest request;
  request.sources.paths = {test::source_dir() + "/traces/samples/tiny_fsdp2.toml"};
  auto outcome = tasks::simulate(request);
  REQUIRE(outcome.has_value());
  const std::string database = test::written(folder.path("p.db"), outcome->run);
  const Ns step = outcome->summary.step_time().value();
  for (const char* format : {"chrome", "perfetto"}) {
    INFO(format);
    request.sources.paths = {folder.path(format)};
    REQUIRE(tasks::export_runs({database}, format, folder.path(format)));
    const auto again = tasks::simulate(request);
    REQUIRE(again.has_value());
    CHECK(std::abs(again->summary.step_time().value() - step) < step / 50);
    CHECK_FALSE(again->summary.is_measured);
    CHECK_FALSE(again->summary.has_memory);
    const auto gathered = [](const tasks::Outcome& of) {
      return of.summary.slow()
          .times->busy.by_kind[static_cast<std::size_t>(OpKind::all_gather)]
          .bytes;
    };
    CHECK(gathered(*again) == gathered(*outcome));
  }
}

TEST_CASE("export: lanes of a pipeline timeline, which overlap") {
  const auto data = test::shared_data("pipeline/straggler");
  if (!data) FOREGATHER_SKIP("the shared data are absent");
  std::size_t exported = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(*data)) {
    if (!entry.is_regular_file()) continue;
    const auto files = tasks::import_files({entry.path().string()});
    if (!files || !files->front().recording) continue;
    INFO(entry.path().string());
    const run::Recording* const recordings[] = {files->front().recording.get()};
    const auto measured = rebuild::measured_run(recordings, std::nullopt);
    REQUIRE(measured);
    const auto view = test::read_chrome(test::chrome_text(measured->run));
    CHECK(view.faults == std::vector<std::string>{});
    ++exported;
  }
  CHECK(exported >= 1);
}

TEST_CASE("export: ranks of a run are ranks again when it is imported") {
  const run::Run run = test::example_run();
  REQUIRE(run.classes.size() == 2);
  const std::shared_ptr<const run::Recording> file =
      std::make_shared<run::Recording>(imported(test::chrome_text(run)));
  const auto ranks = rebuild::one_a_rank(std::vector{file});
  REQUIRE(ranks.size() == 2);
  const run::Recording* const recordings[] = {ranks[0].get(), ranks[1].get()};
  const auto again = rebuild::measured_run(recordings, std::nullopt);
  REQUIRE(again);
  REQUIRE(again->run.steps.size() == run.steps.size());
  for (std::size_t s = 0; s < run.steps.size(); ++s) {
    const auto all = keys_of(run, run::StepRow(s)), some = keys_of(again->run, run::StepRow(s));
    CHECK(some.size() > 1);
    for (const std::string& key : some) {  // ranks are counted: 0 and 1
      CAPTURE(key);
      CHECK(std::ranges::count(all, key.substr(2), [](const auto& k) { return k.substr(2); }) == 1);
    }
  }
}
