#include "tasks/sweep.h"

#include <algorithm>
#include <array>
#include <functional>
#include <random>
#include <sstream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/store/sweep_reader.h"
#include "tasks/pareto.h"
#include "tasks/point_warnings.h"
#include "tasks/simulate.h"
#include "tasks/sweep_rows.h"
#include "tests/support/places.h"
#include "tests/support/scratch.h"
#include "tests/unit/tasks/swept.h"

using namespace foregather;
using namespace foregather::tasks;
using test::indices;
using test::kSamples;
using test::refusal;
using test::Rows;
using test::swept;
using test::Swept;
using test::tiny;

namespace {

// A few points of the sweep, each predicted alone.
void check_against_simulate(const SweepRequest& request, std::size_t count) {
  const auto sweep = Sweep::open(request);
  if (!sweep) FAIL(sweep.error().text());
  const auto axes = SweepAxes::read(request.vary);
  REQUIRE(axes.has_value());
  const Swept outcome = swept(request);
  if (!outcome.counts) FAIL(outcome.counts.error().text());
  REQUIRE(std::ssize(outcome.points) == axes->grid().size());
  std::mt19937 random(20);
  for (std::size_t i = 0; i < count; ++i) {
    const run::SweepPoint& point = outcome.points[std::uniform_int_distribution<std::size_t>(
        0, outcome.points.size() - 1)(random)];
    Candidate candidate{request.sets, request.what_if};
    axes->apply(point.values, candidate);
    SimulateRequest alone;
    alone.sources.paths = {request.source};
    alone.sets = candidate.sets;
    alone.what_if = candidate.what_if;
    alone.record_memory = false;
    CAPTURE(request.source, point.index, candidate.sets, candidate.what_if, point.error);
    const auto predicted = simulate(alone);
    if (!predicted) {
      CHECK(point.status == run::PointStatus::failed);
      CHECK(point.error == predicted.error().text());
      continue;
    }
    CHECK(figures_of(predicted->summary) == point.figures);
    CHECK((point.status == run::PointStatus::out_of_memory) == predicted->summary.oom.has_value());
  }
}

}  // namespace

TEST_CASE("rows of a sweep are what simulate says of the same settings") {
  SweepRequest request;
  request.source = kSamples + "llama3_8b_fsdp2.toml";
  request.vary = {"train.micro_batch=1,2,64",
                  "parallel.world_size=1,8,12,32",
                  "train.activation_checkpointing=none,full,selective:2",
                  "hw=h100_sxm,a100_40_sxm,v100_16_sxm",
                  "allocator.conf=,expandable_segments:True,garbage_collection_threshold:0.6",
                  "what-if.limit-all-gathers=,2",
                  "what-if.scale=,links:2",
                  "cluster.link_bandwidth_scale=0.5,1",
                  "cluster.contention=true,false"};
  request.sets = {"train.seq_len=512", "model.layers=2"};
  check_against_simulate(request, 60);
}

// A full device may be answered by releasing oversize blocks alone, which is no retry.
TEST_CASE("a memory plan that met the limit of one device is not that of a larger one") {
  SweepRequest request;
  request.source = kSamples + "llama3_8b_fsdp2.toml";
  request.sets = {"parallel.strategy=ddp", "allocator.conf=max_split_size_mb:256",
                  "model.layers=10", "train.seq_len=2048"};
  request.vary = {"parallel.world_size=8,16", "hw=h100_96_sxm,h100_sxm"};
  request.jobs = 1;
  check_against_simulate(request, 16);
}

TEST_CASE("a state that is wanted in vain is among the warnings of a row") {
  SweepRequest request;
  request.source = kSamples + "gpt2_two_names.toml";
  request.sets = {"parallel.strategy=zero3", "model.layers=2"};
  request.vary = {"train.optimizer_state=int8,fp32"};
  check_against_simulate(request, 6);
}

TEST_CASE("so they are for every sample") {
  for (const char* sample :
       {"gpt2_ddp.toml", "llama2_7b_fsdp1.toml", "mixtral_8x7b_zero3.toml", "moe_fsdp1.toml",
        "openvla_deepcompile.toml", "shared_params_fsdp1.toml", "thunder_tied_linear.txt"}) {
    SweepRequest request;
    request.source = kSamples + sample;
    request.vary = {"cluster.link_bandwidth_scale=1,4", "hw=h100_sxm,rtx_4090",
                    "what-if.scale=,compute:2"};
    check_against_simulate(request, 3);
  }
}

TEST_CASE("their columns are the fields that simulate --json prints, known or not") {
  for (const std::string& source :
       {kSamples + "tiny_fsdp2.toml", test::source_dir() + "/tests/golden/inputs/kineto_small.json",
        test::source_dir() + "/tests/golden/inputs/chakra/fsdp.0.et"}) {
    SweepRequest request;
    request.source = source;
    request.vary = {"what-if.scale=compute:2"};
    const Swept outcome = swept(request);
    REQUIRE(outcome.points.size() == 1);
    SimulateRequest alone;
    alone.sources.paths = {source};
    alone.what_if = {"scale=compute:2"};
    const auto predicted = simulate(alone);
    REQUIRE(predicted.has_value());
    const auto whole = nlohmann::json::parse(to_json(predicted->summary));
    const run::SweepInfo info = Sweep::open(request).value().info();
    const auto row = nlohmann::json::parse(json_line(info, outcome.points.front()));
    int compared = 0;
    for (const auto& [name, value] : row.items()) {
      if (name == "warnings") continue;
      const std::size_t dot = name.find('.');
      const auto outer = whole.find(name.substr(0, dot));
      if (outer == whole.end()) continue;
      CAPTURE(source, name);
      ++compared;
      const bool is_inner = dot != std::string::npos && outer->is_object();
      CHECK(value == (is_inner ? outer->at(name.substr(dot + 1)) : *outer));
    }
    CHECK(compared > 24);
  }
}

TEST_CASE("points that are predicted with cold caches give the same bytes") {
  SweepRequest request;
  request.source = kSamples + "llama3_8b_fsdp2.toml";
  request.vary = {"train.micro_batch=1,2,64",
                  "parallel.world_size=1,8,12,32",
                  "train.activation_checkpointing=none,full,first:1",
                  "hw=h100_sxm,a100_40_sxm",
                  "allocator.conf=,expandable_segments:True",
                  "what-if.limit-all-gathers=,2",
                  "what-if.scale=,links:2"};
  request.sets = {"train.seq_len=512", "model.layers=2"};
  const Swept warm = swept(request);
  const run::SweepInfo info = Sweep::open(request).value().info();
  std::mt19937 random(5);
  request.shard.of = info.points;
  for (int i = 0; i < 40; ++i) {
    // A sweep of one point knows nothing of others.
    request.shard.number = std::uniform_int_distribution<std::int64_t>(1, request.shard.of)(random);
    const Swept cold = swept(request);
    REQUIRE(cold.points.size() == 1);
    const auto& same = warm.points[static_cast<std::size_t>(request.shard.number - 1)];
    CHECK(csv_line(cold.points.front()) == csv_line(same));
    CHECK(json_line(info, cold.points.front()) == json_line(info, same));
  }
}

TEST_CASE("conditions that no point meets are gone through, reported on the way, and refused") {
  SweepRequest request = tiny({"train.micro_batch=1..1000", "train.seq_len=1..1000"});
  request.where = {"train.micro_batch > 3", "train.micro_batch < 2"};
  const auto sweep = Sweep::open(request);
  Rows rows;
  std::vector<double> shares;
  const auto counts =
      sweep->run(rows, [&](const SweepProgress& progress) { shares.push_back(progress.share); });
  REQUIRE_FALSE(counts.has_value());
  CHECK(counts.error().text() == "--where: none of 1,000,000 points meets the conditions");
  CHECK(shares.size() >= 5);
  CHECK(std::ranges::is_sorted(shares));
  CHECK(rows.points.empty());
}

TEST_CASE(
    "candidates that share actions share what the allocator does, and those that do not, not") {
  SweepRequest request =
      tiny({"parallel.world_size=2,4,8,16", "train.grad_accum=1,2", "cluster.gpus_per_node=1,2",
            "what-if.delay=,after-loss:5ms", "parallel.reshard_after_forward=true,false",
            "train.optimizer=adamw,sgd"});
  check_against_simulate(request, 64);
}

TEST_CASE("rows come in order of the grid and do not depend on the number of threads") {
  SweepRequest request = tiny({"train.micro_batch=1..8", "train.seq_len=32..64+8",
                               "cluster.link_bandwidth_scale=1..5", "parallel.world_size=1..4"});
  request.jobs = 1;
  const Swept one = swept(request);
  request.jobs = 4;
  const Swept four = swept(request);
  REQUIRE(one.points.size() == 800);
  CHECK(one.points == four.points);
  for (std::size_t i = 0; i < one.points.size(); ++i)
    REQUIRE(one.points[i].index == static_cast<std::int64_t>(i));
}

TEST_CASE("a combination that cannot be is a row with its error") {
  const Swept outcome = swept(tiny({"parallel.world_size=8,12"}));
  REQUIRE(outcome.counts.has_value());
  REQUIRE(outcome.points.size() == 2);
  CHECK(outcome.points[0].status == run::PointStatus::fits);
  CHECK(outcome.points[1].status != run::PointStatus::out_of_memory);
  const Swept failed = swept(tiny({"parallel.world_size=8,12", "cluster.gpus_per_node=8"}));
  CHECK(failed.counts->failed == 1);
  CHECK(failed.points[1].error.find("is not a multiple of") != std::string::npos);
}

TEST_CASE("an empty value leaves a key as it is, or empties a text") {
  const test::Scratch scratch;
  SweepRequest request = tiny({"train.micro_batch=,3", "allocator.conf=,backend:native"});
  std::ostringstream text;
  text << std::ifstream(request.source).rdbuf()
       << "[allocator]\nconf = \"expandable_segments:True\"";
  request.source = scratch.write("w.toml", text.str());
  request.sets = {"train.micro_batch=2", "model.config=" + kSamples + "configs/tiny_llama.json"};
  const Swept outcome = swept(request);
  REQUIRE(outcome.points.size() == 4);
  CHECK(outcome.points[0].figures == outcome.points[1].figures);  // both without segments
  CHECK(outcome.points[0].figures.tokens_per_rank_step * 3 ==
        outcome.points[2].figures.tokens_per_rank_step * 2);
}

TEST_CASE("conditions choose points by what varies, is set or is in the file") {
  SweepRequest request = tiny({"parallel.world_size=1..16", "train.micro_batch=1..4"});
  request.sets = {"train.grad_accum=2"};
  request.where = {"parallel.world_size % 8 == 0",
                   "train.micro_batch * train.grad_accum > 2 && train.precision == 'bf16-mixed'"};
  const Swept outcome = swept(request);
  if (!outcome.counts) FAIL(outcome.counts.error().text());
  CHECK(indices(outcome.points) == std::vector<std::int64_t>{29, 30, 31, 61, 62, 63});
  CHECK(outcome.counts->excluded == 58);
}

TEST_CASE("what cannot be swept is refused before anything is predicted") {
  CHECK(refusal(tiny({})).find("nothing varies") != std::string::npos);
  CHECK(refusal(tiny({"train.micro_bach=1"})).find("did you mean 'train.micro_batch'") !=
        std::string::npos);
  CHECK(refusal(tiny({"train.micro_batch=1,0"})).find("0 is out of range") != std::string::npos);
  CHECK(refusal(tiny({"train.micro_batch=0..4"})).find("0 is out of range") != std::string::npos);
  CHECK(refusal(tiny({"allocator.conf=,bogus:1"})).find("bogus") != std::string::npos);
  CHECK(refusal(tiny({"allocator.conf=,backend:cudaMallocAsync"})).find("another backend") !=
        std::string::npos);
  CHECK(refusal(tiny({"hw=h100_sxn"})).find("h100_sxm") != std::string::npos);
  CHECK(refusal(tiny({"hw=h100_sxm", "cluster.hw=h200_sxm"})).find("given twice") !=
        std::string::npos);
  CHECK(refusal(tiny({"what-if.prefech=none"})).find("unknown pass") != std::string::npos);
  CHECK(refusal(tiny({"what-if.scale=gem:2"})).find("unknown target") != std::string::npos);
  SweepRequest missing = tiny({"train.micro_batch=1"});
  missing.source = "/nowhere.toml";
  CHECK(refusal(missing).find("/nowhere.toml") != std::string::npos);
  SweepRequest bad_set = tiny({"train.micro_batch=1"});
  bad_set.sets = {"train.seq_len=0"};
  CHECK(refusal(bad_set).starts_with("--set train.seq_len"));
  SweepRequest idle_set = tiny({"hw=h100_sxm,a30", "train.micro_batch=,2"});
  idle_set.sets = {"train.micro_batch=4", "cluster.hardware=l4"};
  CHECK(refusal(idle_set).starts_with("--vary hw: cluster.hardware is set for all points, too"));
  idle_set = tiny({"allocator.conf=,backend:native"});
  idle_set.sets = {"allocator.conf=expandable_segments:True"};
  CHECK(refusal(idle_set).starts_with("--vary allocator.conf: allocator.conf is set"));
  SweepRequest contradiction = tiny({"train.micro_batch=1..9"});
  contradiction.where = {"train.micro_batch > 4", "train.micro_batch < 3"};
  CHECK(refusal(contradiction).find("none of 9 points meets") != std::string::npos);
  SweepRequest hopeless = tiny({"train.micro_batch=1..3"});
  hopeless.sets = {"parallel.world_size=12", "cluster.gpus_per_node=8"};
  CHECK(refusal(hopeless).find("none of 3 points can be predicted") != std::string::npos);
  SweepRequest huge = tiny({"train.micro_batch=1..1000000", "train.seq_len=1..1000000"});
  CHECK(refusal(huge).find("points at once are too many") != std::string::npos);
}

TEST_CASE("a shard of a grid of 10^12 points is a sweep like any other") {
  SweepRequest request = tiny({"train.micro_batch=1..1000000", "train.seq_len=1..1000000"});
  request.shard = {1, 1'000'000};
  request.where = {"train.seq_len <= 3"};
  const Swept outcome = swept(request);
  if (!outcome.counts) FAIL(outcome.counts.error().text());
  CHECK(outcome.points.size() == 3);
}

TEST_CASE("the front is what no other point beats, and all of it is drawn") {
  const SweepRequest request = tiny({"train.micro_batch=1..8*2", "parallel.world_size=1,2,4"});
  const Swept all = swept(request);
  REQUIRE(all.points.size() == 12);
  const auto beats = [](const run::PointFigures& a, const run::PointFigures& b) {
    const auto figures = [](const run::PointFigures& point) {
      return std::array{point.times->step, *reserved(point), Ns{point.world_size},
                        *gpu_time_per_token(point)};
    };
    const auto first = figures(a), second = figures(b);
    return first != second && std::ranges::equal(first, second, std::less_equal<>());
  };
  PointFront front;
  std::vector<std::int64_t> expected, found;
  for (const run::SweepPoint& point : all.points) {
    front.add(point);
    if (std::ranges::none_of(all.points, [&](const run::SweepPoint& other) {
          return beats(other.figures, point.figures);
        }))
      expected.push_back(point.index);
  }
  const auto points = front.points();
  for (const run::SweepPoint& point : points) found.push_back(point.index);
  std::ranges::sort(found);
  CHECK(found == expected);

  const auto sweep = Sweep::open(request);
  REQUIRE(sweep);
  const std::string svg = pareto_svg(sweep->info(), points);
  for (const run::SweepPoint& point : points)
    CHECK(svg.find(fmt::format("train.micro_batch={} parallel.world_size={} ", point.values[0],
                               point.values[1])) != std::string::npos);
  CHECK(svg.find("4 GPUs") != std::string::npos);
  CHECK(svg.find("reserved memory") != std::string::npos);
}

TEST_CASE("a front without memory is drawn over GPUs, and one without points says so") {
  SweepRequest request;
  request.source = test::source_dir() + "/tests/golden/inputs/kineto_small.json";
  request.vary = {"what-if.scale=,compute:2"};
  const Swept outcome = swept(request);
  PointFront front;
  for (const run::SweepPoint& point : outcome.points) front.add(point);
  REQUIRE(front.points().size() == 1);
  const run::SweepInfo info = Sweep::open(request).value().info();
  const std::string svg = pareto_svg(info, front.points());
  CHECK(svg.find("<title>what-if.scale=compute:2 ") != std::string::npos);
  CHECK(svg.find("reserved memory") == std::string::npos);
  CHECK(svg.find("0 B") == std::string::npos);
  CHECK(svg.find("no point fits") == std::string::npos);
  CHECK(pareto_svg(info, {}).find("no point fits") != std::string::npos);
}

TEST_CASE("rows as text have a cell for each column") {
  SweepRequest request = tiny({R"(allocator.conf="expandable_segments:True,max_split_size_mb:64",)",
                               "parallel.world_size=8,12"});
  request.sets = {"cluster.gpus_per_node=8"};
  const Swept outcome = swept(request);
  REQUIRE(outcome.points.size() == 4);
  const auto sweep = Sweep::open(request);
  const std::string header = csv_header(sweep->info());
  CHECK(header.starts_with("allocator.conf,parallel.world_size,status,step_time_ns,"));
  const auto commas = std::ranges::count(header, ',');
  CHECK(
      csv_line(outcome.points[0]).starts_with("\"expandable_segments:True,max_split_size_mb:64\""));
  CHECK(std::ranges::count(csv_line(outcome.points[2]), ',') == commas);
  CHECK(csv_line(outcome.points[3]).starts_with(",12,error,,,"));
  CHECK(json_line(sweep->info(), outcome.points[3]).find("\"step_time_ns\":null") !=
        std::string::npos);
}

TEST_CASE("a sweep says each warning of its points once, with their number") {
  SweepRequest request = tiny({"train.micro_batch=1..3"});
  request.sets = {"train.momentum=0.9"};
  SimulateRequest alone;
  alone.sources.paths = {request.source};
  alone.sets = request.sets;
  const std::vector<std::string> texts = simulate(alone).value().summary.warnings;
  REQUIRE(texts.size() == 1);
  const Swept outcome = swept(request);
  CHECK(outcome.points.front().figures.warnings == 1);
  CHECK(outcome.counts->warnings == std::vector<std::string>{"3 of 3 points: " + texts.front()});
}

TEST_CASE("warnings of points are the same in any order, and bounded") {
  std::vector<std::vector<std::string>> points;
  for (int text = 0; text < 40; ++text)
    points.push_back({"every", "every", fmt::format("only {:02}", text)});
  std::vector<std::string> said;
  for (int order = 0; order < 2; ++order) {
    PointWarnings warnings;
    for (const auto& point : points) warnings.add(point);
    if (order == 1) CHECK(warnings.texts() == said);
    said = warnings.texts();
    std::ranges::reverse(points);
  }
  REQUIRE(said.size() == 17);
  CHECK(said.front() == "40 of 40 points: every");
  CHECK(said[1] == "1 of 40 points: only 00");
  CHECK(said.back() == "25 more warnings of points, of other texts");
}
