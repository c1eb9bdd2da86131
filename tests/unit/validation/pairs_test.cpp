// What one choice changes, published and predicted.
#include <catch2/catch.hpp>

#include <map>
#include <string>
#include <vector>

#include "core/base/units.h"
#include "tasks/validation/by_mechanism.h"
#include "tasks/validation/measured.h"
#include "tasks/validation/pairs.h"
#include "tasks/validation/pairs_report.h"
#include "tasks/validation/scaling_report.h"
#include "tests/support/skip.h"

using namespace foregather;
using namespace foregather::tasks;
using Catch::Matchers::Contains;
using foregather::test::shared_data;

namespace {

RowResult result(const std::string& id) {
  RowResult result;
  MeasuredRow& row = result.row;
  row.id = id;
  row.group = "g";
  row.gpu = "H100";
  row.strategy = "fsdp2";
  row.checkpointing = row.compile = "none";
  row.compute = row.param_dtype = "bf16";
  row.optimizer = "adamw";
  row.attention = "sdpa";
  row.memory_metric = "reserved_gib";
  row.gpus = 8;
  row.nodes = 1;
  row.micro_batch = 1;
  row.seq_len = 4096;
  return result;
}

/// Step times in seconds, peaks in GiB.
RowResult with(RowResult row, double published_time, double predicted_time, double published_peak,
               double predicted_peak) {
  row.row.step_time_s = published_time;
  row.row.peak_gib = published_peak;
  row.prediction.step = static_cast<Ns>(predicted_time * 1e9);
  row.prediction.peak = static_cast<Bytes>(predicted_peak * static_cast<double>(GiB));
  return row;
}

RowResult base_result() { return with(result("base"), 1.0, 1.1, 50, 40); }

}  // namespace

TEST_CASE("of two publications that contradict each other one can be predicted") {
  const auto compiled = [](RowResult row, const std::string& group) {
    row.row.group = group;
    row.row.id += '-' + group;
    return row;
  };
  RowResult faster = with(result("compiled"), 0.9, 0.9, 50, 40);
  faster.row.compile = "per_block";
  RowResult fastest = with(result("compiled"), 0.85, 0.9, 50, 40);
  fastest.row.compile = "per_block";
  std::vector<RowResult> rows{compiled(base_result(), "a"), compiled(faster, "a"),
                              compiled(base_result(), "b"), compiled(fastest, "b")};
  const Pairs pairs = find_pairs(rows);
  REQUIRE(find_contradictions(pairs).size() == 1);
  CHECK(find_contradictions(pairs).front().b->second->row.id == "compiled-b");
  CHECK_THAT(pairs_markdown(rows), Contains("differ by more than 4 points") &&
                                       Contains("- compile: `base-a` to `compiled-a` (-10.0 %), "
                                                "`base-b` to `compiled-b` (-15.0 %)"));
  rows.back().row.step_time_s = 0.861;
  CHECK(find_contradictions(find_pairs(rows)).empty());
  rows.back().row.step_time_s = 0.85;
  rows[2].row.seq_len = rows[3].row.seq_len = 8192;
  CHECK_THAT(pairs_markdown(rows), !Contains("differ by more than 4 points"));
}

TEST_CASE("a pair's effects are shares of the first result") {
  RowResult never = with(result("never"), 0.9, 1.001, 60, 51);
  never.row.strategy = "fsdp2_never";
  const std::vector<RowResult> rows{base_result(), never};
  const Pairs pairs = find_pairs(rows);
  REQUIRE(pairs.judged.size() == 1);
  const RowPair& pair = pairs.judged.front();
  CHECK(pair.kind == "reshard after forward");
  CHECK(pair.change == "fsdp2 → fsdp2_never");
  CHECK(pair.what_if);
  CHECK(pair.first == rows.data());
  CHECK(pair.time->published == Approx(-0.1));
  CHECK(pair.time->predicted == Approx(-0.09));
  CHECK(pair.memory->published == Approx(0.2));
  CHECK(pair.memory->predicted == Approx(0.22));  // 11 GiB of the published 50
  CHECK(pair.time->is_sign_right());
  CHECK(pair.time->is_within());
  CHECK(pair.memory->is_within());
}

TEST_CASE("bars of effects") {
  CHECK(TimeEffect{{-0.10, -0.081}}.is_within());
  CHECK(!TimeEffect{{-0.10, -0.079}}.is_within());
  CHECK(!TimeEffect{{-0.10, 0.001}}.is_sign_right());
  CHECK(!TimeEffect{{-0.10, 0}}.is_sign_right());
  CHECK(TimeEffect{{0.009, -0.019}}.is_sign_right());  // no effect
  CHECK(!TimeEffect{{0.009, 0.021}}.is_sign_right());
  CHECK(TimeEffect{{0.011, 0.001}}.is_sign_right());
  CHECK(MemoryEffect{{-0.10, -0.119}}.is_within());
  CHECK(!MemoryEffect{{-0.10, -0.121}}.is_within());
  CHECK(MemoryEffect{{0.001, -0.019}}.is_within());
  CHECK(!MemoryEffect{{0.001, -0.021}}.is_within());
}

TEST_CASE("a pair differs in exactly one choice") {
  const auto kind_of = [](auto change) {
    RowResult other = with(result("other"), 1, 1, 50, 50);
    change(other.row);
    const std::vector<RowResult> rows{base_result(), other};
    const Pairs pairs = find_pairs(rows);
    return pairs.judged.empty() ? std::string() : pairs.judged.front().kind;
  };
  CHECK(kind_of([](MeasuredRow& row) { row.checkpointing = "full"; }) == "checkpointing");
  CHECK(kind_of([](MeasuredRow& row) { row.compile = "full"; }) == "compile");
  CHECK(kind_of([](MeasuredRow& row) { row.attention = "flex"; }) == "attention");
  CHECK(kind_of([](MeasuredRow& row) { row.optimizer = "adamw_fused"; }) == "optimizer");
  CHECK(kind_of([](MeasuredRow& row) { row.strategy = "yafsdp"; }) == "fsdp2 / yafsdp");
  CHECK(kind_of([](MeasuredRow& row) {
          row.compute = "fp8_tensorwise";
          row.fp8_all_gather = "yes";
        }) == "float8");
  // Thunder brings its compiler; FSDP2 does not.
  CHECK(kind_of([](MeasuredRow& row) {
          row.strategy = "thunder_zero3";
          row.compile = "thunder";
        }) == "fsdp2 / thunder_zero3");
  CHECK(kind_of([](MeasuredRow& row) {
          row.strategy = "fsdp2_never";
          row.compile = "full";
        }) == "");
  // Nothing, or something else.
  CHECK(kind_of([](MeasuredRow&) {}) == "");
  CHECK(kind_of([](MeasuredRow& row) { row.checkpointing = "unknown"; }) == "");
  for (const auto field :
       {&MeasuredRow::group, &MeasuredRow::gpu, &MeasuredRow::param_dtype,
        &MeasuredRow::reduce_dtype, &MeasuredRow::master, &MeasuredRow::allocator_conf,
        &MeasuredRow::config, &MeasuredRow::link, &MeasuredRow::fabric})
    CHECK(kind_of([&](MeasuredRow& row) {
            row.compile = "full";
            row.*field = "changed";
          }) == "");
  for (const auto field :
       {&MeasuredRow::gpus, &MeasuredRow::nodes, &MeasuredRow::micro_batch, &MeasuredRow::seq_len})
    CHECK(kind_of([&](MeasuredRow& row) {
            row.compile = "full";
            row.*field = 77;
          }) == "");
  CHECK(kind_of([](MeasuredRow& row) {
          row.compile = "full";
          row.grad_accum = 2;
        }) == "");
}

TEST_CASE("a downcast before the gather is one choice, whatever dtype it leaves to gather") {
  RowResult after_gather = base_result(), before_gather = with(result("fused"), 0.8, 0.9, 45, 36);
  for (RowResult* each : {&after_gather, &before_gather}) each->row.master = "fp32";
  after_gather.row.strategy = "deepcompile";
  after_gather.row.param_dtype = "fp32";
  before_gather.row.strategy = "deepcompile_fused";
  const std::vector<RowResult> rows{after_gather, before_gather};
  const Pairs pairs = find_pairs(rows);
  REQUIRE(pairs.judged.size() == 1);
  CHECK(pairs.judged.front().kind == "fused downcast");
  CHECK(pairs.judged.front().what_if);
}

TEST_CASE("what makes no pair is counted") {
  RowResult skipped = base_result(), bare = result("bare"), metric = base_result(),
            twin = base_result();
  skipped.row.id = "skipped";
  skipped.row.compile = "full";
  skipped.prediction.skipped = "why";
  bare.row.compile = "per_block";  // without figures
  metric.row.id = "metric";
  metric.row.checkpointing = "full";
  metric.row.memory_metric = "allocated_gib";
  metric.row.step_time_s.reset();
  twin.row.id = "twin";
  const std::vector<RowResult> rows{base_result(), skipped, bare, metric, twin};
  const Pairs pairs = find_pairs(rows);
  CHECK(pairs.judged.empty());
  CHECK(pairs.not_predicted == 2);
  CHECK(pairs.nothing_in_common == 2);
  REQUIRE(pairs.alike.size() == 1);
  REQUIRE(pairs.alike.front().size() == 2);
  CHECK(pairs.alike.front().back()->row.id == "twin");
}

TEST_CASE("counts and misses of pairs are told") {
  RowResult compiled = with(result("compiled"), 0.8, 0.9896, 50.1, 30);
  compiled.row.compile = "full";
  const std::vector<RowResult> rows{base_result(), compiled};
  const std::string markdown = pairs_markdown(rows);
  CHECK_THAT(markdown, Contains("| compile | 1 | 1 of 1 | 0 of 1 | 0 of 1 | 0 of 1 |"));
  CHECK_THAT(markdown, Contains("| what-ifs together | 1 | 1 of 1 |"));
  CHECK_THAT(markdown, Contains("| checkpointing | 0 | – | – | – | – |"));
  CHECK_THAT(markdown, Contains("| `base` | `compiled` | none → full | -10.0 % (-20.0 %) | -20.0 % "
                                "(+0.2 %) | time, memory's sign, memory |"));
  CHECK_THAT(markdown, Contains("- compile, `base` and `compiled`: time -10.0 % predicted, -20.0 % "
                                "published. Errors of the two: +10.0 % and +23.7 %. The second: "));
  CHECK_THAT(pairs_text(rows), Contains("compile"));
  const PairCounts what_ifs = count_what_ifs(rows);
  CHECK(what_ifs.are_signs_right() == false);
  CHECK(what_ifs.are_times_within() == false);
  CHECK(!count_what_ifs({base_result()}).are_signs_right());
  JsonWriter json;
  json.begin_object();
  write_pairs(json, rows);
  json.end_object();
  CHECK_THAT(json.text(), Contains("\"time_within_2_points\": 0"));
  CHECK(pairs_markdown({base_result()}).empty());
}

TEST_CASE("the slope of scaling is that of tokens a GPU over GPUs") {
  RowResult small = with(result("small"), 1, 1, 50, 50), large = with(result("large"), 4, 2, 1, 1);
  large.row.gpus = 32;
  large.row.nodes = 4;
  large.row.fabric = "roce_400";
  large.row.grad_accum = 2;
  const std::vector<RowResult> rows{large, small};
  const Scaling scaling = find_scaling(rows);
  REQUIRE(scaling.families.size() == 1);
  const ScalingFamily& family = scaling.families.front();
  CHECK(family.least_gpus() == 8);
  CHECK(family.most_gpus() == 32);
  CHECK(family.published_slope == Approx(-0.5));  // twice the tokens in four times the time
  CHECK(family.predicted_slope == Approx(0).margin(1e-9));
  CHECK(family.published_ratio() == Approx(0.5));
  CHECK(family.error() == Approx(1.0));
  CHECK(!family.is_within());
  CHECK(*scaling.published_slope == Approx(-0.5));
  CHECK(scaling.are_within() == false);
  CHECK(!find_scaling({}).are_within());
  CHECK_THAT(scaling_markdown(rows), Contains("| `small` | 8, 32 | "));
  CHECK_THAT(scaling_markdown(rows), Contains("within 10 %: 0 of 1"));
}

TEST_CASE("a scaling family agrees in all but GPUs, nodes and micro-batches a step") {
  const auto families = [](auto change) {
    RowResult other = with(result("other"), 1.05, 1, 50, 50);
    other.row.gpus = 16;
    change(other.row);
    return find_scaling({base_result(), other}).families.size();
  };
  CHECK(families([](MeasuredRow&) {}) == 1);
  CHECK(families([](MeasuredRow& row) { row.gpus = 8; }) == 0);
  CHECK(families([](MeasuredRow& row) { row.micro_batch = 2; }) == 0);
  CHECK(families([](MeasuredRow& row) { row.checkpointing = "full"; }) == 0);
  CHECK(families([](MeasuredRow& row) { row.group = "h"; }) == 0);
  CHECK(families([](MeasuredRow& row) { row.step_time_s.reset(); }) == 0);
  // Two fabrics make two families; a result on one node belongs to both.
  RowResult roce = base_result(), ib = base_result();
  roce.row.gpus = ib.row.gpus = 16;
  roce.row.nodes = ib.row.nodes = 2;
  roce.row.fabric = "roce_400";
  ib.row.fabric = "ib_ndr";
  CHECK(find_scaling({base_result(), roce, ib}).families.size() == 2);
}

TEST_CASE("errors are grouped by what the step spends its time on and by its kernels") {
  RowResult host = base_result(), between = base_result(), float8 = base_result();
  host.prediction.shares = {0.5, 0.3, 0.4};
  between.prediction.shares = {0.9, 0.1, 0};
  between.row.nodes = 2;
  float8.row.compute = "fp8_rowwise";
  float8.row.compile = "full";
  float8.prediction.shares = {1, 0.019, 0.01};
  std::map<std::string, std::size_t> counts;
  const std::vector<RowResult> rows{host, between, float8};
  for (const auto& [mechanism, figures] : figures_by_mechanism(rows))
    counts[mechanism] = figures.time.n;
  CHECK(counts["compute alone"] == 1);
  CHECK(counts["and exposed communication between nodes"] == 1);
  CHECK(counts["and exposed communication within the node"] == 0);
  CHECK(counts["and waiting for the host"] == 1);
  CHECK(counts["eager"] == 2);
  CHECK(counts["float8, compiled"] == 1);
  CHECK_THAT(mechanisms_markdown(rows), Contains("| compute alone | 1 | 10.0 % |"));
}

TEST_CASE("the published table has pairs of most kinds and families that scale") {
  const auto path = shared_data("measured/measured.csv");
  if (!path) FOREGATHER_SKIP("the table of measured runs is absent");
  const auto table = read_measured(path->string());
  REQUIRE(table.has_value());
  std::vector<RowResult> rows;
  for (const MeasuredRow& row : *table)
    rows.push_back(with({row, {}}, row.step_time_s.value_or(1), row.step_time_s.value_or(1),
                        row.peak_gib.value_or(1), row.peak_gib.value_or(1)));
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].row = (*table)[i];
  const Pairs pairs = find_pairs(rows);
  std::map<std::string, std::size_t> kinds;
  for (const RowPair& pair : pairs.judged) {
    ++kinds[pair.kind];
    INFO(pair.first->row.id << " " << pair.second->row.id);
    CHECK((!pair.time || (pair.time->is_sign_right() && pair.time->is_within())));
    CHECK((!pair.memory || (pair.memory->is_sign_right() && pair.memory->is_within())));
  }
  CHECK(kinds["reshard after forward"] == 3);
  CHECK(kinds["compile"] >= 7);
  CHECK(kinds["float8"] == 13);
  CHECK(kinds["fsdp1 / yafsdp"] == 13);
  CHECK(pairs.alike.size() == 7);
  const Scaling scaling = find_scaling(rows);
  CHECK(scaling.families.size() == 22);
  for (const ScalingFamily& family : scaling.families) CHECK(family.is_slope_within());
}
