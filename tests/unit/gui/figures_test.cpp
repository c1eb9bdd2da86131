// The numbers of the pictures are those of the command line.
#include <algorithm>
#include <cmath>
#include <set>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/store/reader.h"
#include "gui/models/commands.h"
#include "gui/models/residuals.h"
#include "gui/models/summary.h"
#include "tasks/any_run.h"
#include "tasks/compare.h"
#include "tasks/simulate.h"
#include "tests/support/example_run.h"
#include "tests/support/places.h"
#include "tests/support/scratch.h"
#include "tests/support/skip.h"
#include "tests/support/written_run.h"
#include "tests/unit/gui/opened.h"

using namespace foregather;
using namespace foregather::gui;
using nlohmann::json;
using test::opened;

namespace {

json compared(const std::string& first, const std::string& second) {
  tasks::CompareRequest request;
  request.first = first;
  request.second = second;
  const auto comparison = tasks::compare_runs(request);
  if (!comparison) FAIL(comparison.error().text());
  return json::parse(tasks::to_json(*comparison));
}

void check_same(const Session& session, const json& expected) {
  const auto figures = five_figures(session);
  for (const auto& [side, key] : {std::pair{std::size_t{0}, "first"}, {std::size_t{1}, "second"}}) {
    const json& of_side = expected[key];
    CHECK(figures[0].value[side].value_or(0) == of_side["step_time_ns"]);
    CHECK(figures[1].value[side].value_or(0) == of_side["compute_busy_ns"]);
    CHECK(figures[2].value[side].value_or(0) == of_side["comm_busy_ns"]);
    CHECK(figures[3].value[side].value_or(0) == of_side["exposed_comm_ns"]);
  }
  if (expected["step_time_error"].is_number())
    CHECK(*figures[0].error() == Approx(expected["step_time_error"].get<double>()).margin(1e-6));
  if (expected["peak_memory_error"].is_number())
    CHECK(*figures[4].error() == Approx(expected["peak_memory_error"].get<double>()).margin(1e-6));

  // Of the pair that the command line compares; others follow.
  Residuals residuals(session);
  residuals.sort(ResidualColumn::difference, false);
  std::vector<json> changed;
  std::int64_t only_first = 0, only_second = 0;
  for (const std::uint32_t i : residuals.shown()) {
    const ResidualRow& row = residuals.row(i);
    if (row.pair != 0) continue;
    const compare::MatchedGroup& group = residuals.group(row);
    if (!group.level) {
      only_first += group.first_ops;
      only_second += group.second_ops;
    } else if (group.difference() != 0) {
      changed.push_back({{"key", residuals.text(row, ResidualColumn::op)},
                         {"level", residuals.text(row, ResidualColumn::level)},
                         {"first_ops", group.first_ops},
                         {"second_ops", group.second_ops},
                         {"first_ns", group.first_time},
                         {"second_ns", group.second_time},
                         {"difference_ns", group.difference()}});
    }
  }
  CHECK(json(changed) == expected["changed"]);
  CHECK(only_first == expected["unmatched_predicted"]);
  CHECK(only_second == expected["unmatched_measured"]);
}

}  // namespace

TEST_CASE("figures: as compare --json has them, of two predictions") {
  const test::Scratch scratch;
  std::vector<run::Run> runs;
  for (const char* batch : {"1", "2"}) {
    run::Run run = test::simulated_tiny({std::string("train.micro_batch=") + batch});
    test::written(scratch.path(batch), run);
    runs.push_back(std::move(run));
  }
  check_same(opened(std::move(runs)), compared(scratch.path("1"), scratch.path("2")));
}

TEST_CASE("figures: as compare --json has them, of a workload and a recording") {
  const auto recording = test::shared_data("kineto/megatron_tp8/kineto_0.json.gz");
  if (!recording) FOREGATHER_SKIP("needs kineto/megatron_tp8 of the shared data");
  const std::string workload = test::source_dir() + "/traces/samples/tiny_fsdp2.toml";
  std::vector<run::Run> runs;
  for (const std::string& source : {workload, recording->string()}) {
    auto any = tasks::load_any_run(source);
    REQUIRE(any);
    runs.push_back(std::move(any->run));
  }
  check_same(opened(std::move(runs)), compared(workload, recording->string()));
}

TEST_CASE("figures: of one run as simulate --json has them") {
  tasks::SimulateRequest request;
  request.sources.paths = {test::source_dir() + "/traces/samples/moe_fsdp1.toml"};
  auto outcome = tasks::simulate(request);
  REQUIRE(outcome);
  const json expected = json::parse(tasks::to_json(outcome->summary));
  const Session session = opened({std::move(outcome->run)});
  const auto figures = five_figures(session);
  CHECK(figures[0].value[0] == expected["step_time_ns"]);
  CHECK(figures[1].value[0] == expected["compute_busy_ns"]);
  CHECK(figures[2].value[0] == expected["comm_busy_ns"]);
  CHECK(figures[3].value[0] == expected["exposed_comm_ns"]);
  CHECK(figures[4].value[0] == expected["peak_reserved_bytes"]);
}

TEST_CASE("residuals: sorted, filtered, counted") {
  run::Run measured = test::example_run();
  measured.about.kind = run::RunKind::measured;
  measured.ops.end[2] += 20;               // a gemm takes 40 instead of 20
  measured.ops.kind[5] = OpKind::softmax;  // a norm that met nothing
  measured.ops.phase[5] = Phase::optimizer;
  const Session session = opened({test::example_run(), std::move(measured)});
  Residuals residuals(session);
  CHECK(residuals.all() == 7);
  CHECK(residuals.unmatched() == 2);
  const ResidualRow& worst = residuals.row(residuals.shown().front());
  CHECK(residuals.group(worst).first_time == 20);
  CHECK(residuals.text(worst, ResidualColumn::error) == "-50.0 %");
  CHECK(residuals.text(worst, ResidualColumn::source) == "roofline");
  CHECK(worst.second == run::OpRow(2));
  const ErrorHistogram histogram = residuals.histogram();
  CHECK(histogram.without == 2);
  CHECK(histogram.rows[10] == 4);
  CHECK(histogram.rows[5] == 1);
  CHECK(histogram.measured[5] == 40);
  residuals.filter("ALL_GATHER", false);
  CHECK(residuals.shown().size() == 2);
  CHECK(residuals.unmatched() == 0);
  residuals.filter("", false);
  CHECK(residuals.unmatched() == 2);
  residuals.filter("", true);
  CHECK(residuals.shown().size() == 5);
  CHECK(residuals.unmatched() == 0);
  residuals.sort(ResidualColumn::error, true);
  CHECK(residuals.row(residuals.shown().back()).second == run::OpRow(2));
  const std::string csv = residuals.csv();
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 6);
  CHECK(csv.find("20,40,-20,-0.500000,roofline") != csv.npos);
}

TEST_CASE("residuals: every column sorts by what it shows, both ways") {
  run::Run measured = test::example_run();
  measured.about.kind = run::RunKind::measured;
  measured.ops.end[2] += 20;
  measured.ops.kind[5] = OpKind::softmax;
  measured.ops.phase[5] = Phase::optimizer;
  const Session session = opened({test::example_run(), std::move(measured)});
  Residuals residuals(session);
  REQUIRE(residuals.shown().size() == 7);
  const auto times = [&](const ResidualRow& row, ResidualColumn column) {
    const compare::MatchedGroup& group = residuals.group(row);
    return column == ResidualColumn::first ? group.first_time : group.second_time;
  };
  for (const bool ascending : {true, false}) {
    for (const ResidualColumn column : {ResidualColumn::first, ResidualColumn::second}) {
      residuals.sort(column, ascending);
      CHECK(std::ranges::is_sorted(residuals.shown(), [&](std::uint32_t a, std::uint32_t b) {
        const Ns x = times(residuals.row(a), column), y = times(residuals.row(b), column);
        return ascending ? x < y : x > y;
      }));
    }
    for (const ResidualColumn column :
         {ResidualColumn::scope, ResidualColumn::op, ResidualColumn::source}) {
      CAPTURE(residuals.title(column), ascending);
      residuals.sort(column, ascending);
      CHECK(std::ranges::is_sorted(residuals.shown(), [&](std::uint32_t a, std::uint32_t b) {
        const std::string x = residuals.text(residuals.row(a), column);
        const std::string y = residuals.text(residuals.row(b), column);
        return ascending ? x < y : x > y;
      }));
    }
    // Kinds, phases and levels have orders of their own: equal ones lie together.
    for (const ResidualColumn column :
         {ResidualColumn::kind, ResidualColumn::phase, ResidualColumn::level}) {
      residuals.sort(column, ascending);
      std::vector<std::string> runs;
      for (const std::uint32_t i : residuals.shown())
        if (std::string text = residuals.text(residuals.row(i), column);
            runs.empty() || runs.back() != text)
          runs.push_back(std::move(text));
      CAPTURE(residuals.title(column), ascending);
      const std::set<std::string> distinct(runs.begin(), runs.end());
      CHECK(distinct.size() == runs.size());
    }
  }
}

TEST_CASE("residuals: many ops have a source where it is that of all") {
  run::Run predicted = test::example_run(), measured = test::example_run();
  for (std::size_t i = 0; i < predicted.ops.size(); ++i) {
    predicted.ops.kind[i] = OpKind::gemm;  // phases meet
    measured.ops.kind[i] = OpKind::softmax;
    predicted.ops.scope[i] = measured.ops.scope[i] = StringId();
  }
  measured.ops.scope.assign(measured.ops.size(), measured.strings.intern("elsewhere"));
  const auto sources = [&] {
    const Session session = opened({predicted, measured});
    const Residuals residuals(session);
    std::vector<std::pair<std::int64_t, std::string>> found;
    for (const std::uint32_t i : residuals.shown())
      found.emplace_back(residuals.group(residuals.row(i)).first_ops,
                         residuals.text(residuals.row(i), ResidualColumn::source));
    return found;
  };
  predicted.ops.source.assign(predicted.ops.size(), predicted.strings.intern("roofline"));
  bool has_many = false;
  for (const auto& [ops, source] : sources()) {
    if (ops > 0) CHECK(source == "roofline");
    has_many |= ops > 1;
  }
  CHECK(has_many);
  for (std::size_t i = 0; i < predicted.ops.size(); ++i)
    predicted.ops.source[i] = predicted.strings.intern(fmt::format("table {}", i));
  for (const auto& [ops, source] : sources())
    if (ops > 1) CHECK(source.empty());
}

TEST_CASE("badges: what met nothing, warnings, ranks that stand for others") {
  run::Run measured = test::example_run();
  measured.ops.phase[5] = Phase::optimizer;
  measured.classes[1].ranks = {9};
  measured.about.dropped = {{"cut", 1}, {"damaged", 2000}};
  std::vector<OpenRun> open;
  open.push_back({std::make_shared<const run::Run>(test::example_run()), "a.db", {"a.db: odd"}});
  open.push_back({std::make_shared<const run::Run>(std::move(measured)), "b.db", {}});
  const auto session = Session::open(std::move(open));
  REQUIRE(session);
  std::vector<std::string> texts;
  for (const Badge& badge : badges(*session)) texts.push_back(badge.text);
  CHECK(texts.front() == "A, B: out of memory");
  CHECK(texts[1] == "1 warning");
  CHECK(texts[2] == "2,001 dropped events");
  CHECK(std::find(texts.begin(), texts.end(), "1 proxy rank") != texts.end());
  CHECK(texts.back().ends_with(" of 2 ranks met nothing"));
  // Its residuals name both ranks.
  const std::string csv = Residuals(*session).csv();
  CHECK(csv.find("r0|r9/") != std::string::npos);
  CHECK(csv.find(",r0/") != std::string::npos);
}

TEST_CASE("badges: which of two runs ran out of memory") {
  run::Run fits = test::example_run();
  fits.about.kind = run::RunKind::measured;
  fits.failures.clear();
  CHECK(badges(opened({test::example_run()})).front().text == "out of memory");
  CHECK(badges(opened({test::example_run(), fits})).front().text == "P: out of memory");
  CHECK(badges(opened({fits, test::example_run()})).front().text == "P: out of memory");
}

TEST_CASE("commands: one each, and no key means two things") {
  std::vector<std::string> keys;
  for (const CommandInfo& command : commands()) {
    CHECK(info(command.id).title == command.title);
    if (command.is_gesture) continue;
    std::string text(command.keys);
    for (std::size_t at = 0; (at = text.find("; ")) != text.npos;) {
      keys.push_back(text.substr(0, at));
      text.erase(0, at + 2);
    }
    keys.push_back(text);
  }
  std::sort(keys.begin(), keys.end());
  CHECK(std::adjacent_find(keys.begin(), keys.end()) == keys.end());
}

TEST_CASE("figures: communication of a timeline that tells no collectives apart is not known") {
  run::Run run = test::example_run();
  run.about.kind = run::RunKind::measured;
  run.failures.clear();
  run.calls.clear();
  run.waits.clear();
  for (OpKind& kind : run.ops.kind) kind = OpKind::other;
  CHECK(five_figures(opened({run}))[2].text(0) == "0 ns");
  for (Ns& time : run.ops.issued) time = 0;
  run.ops.launch = {};
  run.ops.launch.resize(run.ops.size());
  const auto figures = five_figures(opened({run}));
  CHECK(figures[1].value[0].has_value());
  CHECK(figures[2].text(0) == "not known");
  CHECK(figures[3].text(0) == "not known");
  run.about.world_size = 1;
  CHECK(five_figures(opened({run}))[2].text(0) == "0 ns");
}

TEST_CASE("figures: a step that ran out of memory has no times") {
  const auto figures = five_figures(opened({test::example_run()}));
  CHECK_FALSE(figures[0].value[0]);
  CHECK_FALSE(figures[3].value[0]);
  CHECK(figures[4].value[0] == 2048);
}
