#include "tasks/search.h"

#include <algorithm>
#include <filesystem>
#include <random>

#include <catch2/catch.hpp>

#include "core/store/sweep_reader.h"
#include "tasks/simulate.h"
#include "tasks/sweep.h"
#include "tasks/sweep_rows.h"
#include "tests/support/places.h"
#include "tests/support/repetitions.h"
#include "tests/support/scratch.h"

using namespace foregather;
using namespace foregather::tasks;

namespace {

const std::string kSearchSamples = test::source_dir() + "/traces/samples/";

class SweptRows final : public run::SweepSink {
 public:
  Status add(const run::SweepPoint& point) override {
    points.push_back(point);
    return {};
  }
  std::vector<run::SweepPoint> points;
};

std::vector<run::SweepPoint> all_points(const SearchRequest& request) {
  SweepRequest sweep;
  static_cast<GridRequest&>(sweep) = static_cast<const GridRequest&>(request);
  SweptRows rows;
  const auto opened = Sweep::open(sweep);
  if (!opened) FAIL(opened.error().text());
  const auto counts = opened->run(rows, [](const SweepProgress&) {});
  if (!counts) FAIL(counts.error().text());
  return std::move(rows.points);
}

SearchReport found(const SearchRequest& request) {
  auto report = search(request, [](std::int64_t) {});
  if (!report) FAIL(report.error().text());
  return std::move(*report);
}

std::string refused(const SearchRequest& request) {
  const auto report = search(request, [](std::int64_t) {});
  return report ? "" : report.error().text();
}

// What a search should find among all points: the best, of those what is farthest from the limit,
// of those the first.
const run::SweepPoint* best_of(const std::vector<run::SweepPoint>& points,
                               const SearchRequest& request) {
  const run::SweepPoint* best = nullptr;
  const auto cost = [&](const run::SweepPoint& point) -> std::pair<std::int64_t, std::int64_t> {
    const Bytes memory = *device_memory(point.figures);
    const Ns step = point.figures.times->step;
    if (request.time_limit) return {memory, step};
    return {request.per_token ? *gpu_time_per_token(point.figures) : step, memory};
  };
  for (const run::SweepPoint& point : points) {
    if (point.status != run::PointStatus::fits) continue;
    if (request.time_limit ? point.figures.times->step > *request.time_limit
                           : *device_memory(point.figures) > *request.memory_limit)
      continue;
    if (best == nullptr || cost(point) < cost(*best)) best = &point;
  }
  return best;
}

// At most 12 settings of three or four keys, on at most 10 layers.
SearchRequest generated(std::mt19937& random) {
  const std::vector<std::vector<std::string>> pool{
      {"train.activation_checkpointing", "none", "selective", "full", "first:2"},
      {"parallel.reshard_after_forward", "true", "false", "2"},
      {"train.micro_batch", "1", "3", "8", "64"},
      {"train.seq_len", "64", "256", "1024"},
      {"parallel.world_size", "2", "4", "8", "6"},
      {"parallel.offload", "none", "optimizer"},
      {"allocator.conf", "", "expandable_segments:True"},
      {"what-if.scale", "", "links:4", "compute:2"},
      {"what-if.prefetch", "", "none", "backward-post"},
      {"parallel.reduce_dtype", "fp32", "bf16"}};
  SearchRequest request;
  request.source = kSearchSamples + "tiny_fsdp2.toml";
  request.sets = {"model.layers=" + std::to_string(1 + random() % 10)};
  std::vector<std::size_t> order(pool.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::shuffle(order, random);
  const std::size_t axes = 3 + random() % 2;
  for (std::size_t settings = 0, i = 0; i < axes && settings < 12; ++i) {
    const auto& key = pool[order[i]];
    std::string text = key.front() + "=";
    for (std::size_t value = 1; value < key.size() && settings < 12; ++value, ++settings)
      text += (value == 1 ? "" : ",") + key[value];
    request.vary.push_back(std::move(text));
  }
  return request;
}

}  // namespace

TEST_CASE("a search of 20 generated instances finds what visiting every point finds") {
  std::mt19937 random(12);
  int fitting = 0;
  std::int64_t simulated = 0, points = 0;
  constexpr int kInstances = test::repetitions(20);
  for (int instance = 0; instance < kInstances; ++instance) {
    SearchRequest request = generated(random);
    std::string keys;
    for (const std::string& vary : request.vary) keys += vary + " ";
    CAPTURE(instance, request.sets.front(), keys);
    const auto rows = all_points(request);
    std::vector<std::int64_t> needs, times;
    for (const run::SweepPoint& row : rows)
      if (row.status == run::PointStatus::fits) {
        needs.push_back(*device_memory(row.figures));
        times.push_back(row.figures.times->step);
      }
    REQUIRE_FALSE(needs.empty());
    std::ranges::sort(needs);
    std::ranges::sort(times);
    const std::size_t at = random() % needs.size();
    for (const int goal : {0, 1, 2}) {
      request.memory_limit.reset();
      request.time_limit.reset();
      request.per_token = goal == 1;
      if (goal == 2)
        request.time_limit = times[at];
      else
        request.memory_limit = needs[at];
      CAPTURE(goal);
      const run::SweepPoint* expected = best_of(rows, request);
      REQUIRE(expected != nullptr);
      const SearchReport report = found(request);
      CHECK(report.is_proved);
      REQUIRE(report.best.has_value());
      CHECK(report.best->point == *expected);
      ++fitting;
      simulated += report.simulated;
      points += report.info.points;
    }
    // A limit that nothing meets.
    request.time_limit.reset();
    request.per_token = false;
    request.memory_limit = needs.front() - 1;
    const SearchReport report = found(request);
    CHECK(report.is_proved);
    CHECK_FALSE(report.best.has_value());
    REQUIRE(report.closest.has_value());
    CHECK(report.closest->need <= needs.front());
  }
  CHECK(fitting == 3 * kInstances);
  CHECK(simulated < points);
}

TEST_CASE("that nothing fits is an answer with a database, that nothing can be is none") {
  const test::Scratch scratch;
  SearchRequest request;
  request.source = kSearchSamples + "tiny_fsdp2.toml";
  request.vary = {"train.micro_batch=1,2"};
  request.memory_limit = 2 * MiB;
  request.database = scratch.path("nothing_fits.db");
  CHECK(found(request).closest.has_value());
  CHECK(store::is_sweep(request.database));
  request.memory_limit = 80;
  CHECK(refused(request).find("80GiB") != std::string::npos);
  request.memory_limit = 2 * MiB;
  request.database = scratch.path("nothing_meets.db");
  request.where = {"train.micro_batch > 2"};
  CHECK_FALSE(refused(request).empty());
  CHECK_FALSE(std::filesystem::exists(request.database));
}

TEST_CASE("of equally small points a search takes the fastest, of equally fast ones the smallest") {
  SearchRequest request;
  request.source = kSearchSamples + "tiny_fsdp2.toml";
  request.vary = {"cluster.link_bandwidth_scale=0.0001,1,10"};
  request.time_limit = 1'000'000'000;
  SearchReport report = found(request);
  REQUIRE(report.best.has_value());
  CHECK(report.best->point.values == std::vector<std::string>{"1"});
  CHECK(report.is_proved);

  request.time_limit.reset();
  request.memory_limit = 4 * GiB;
  request.vary = {"train.micro_batch=4,2,1"};
  report = found(request);
  REQUIRE(report.best.has_value());
  const auto rows = all_points(request);
  REQUIRE(rows[0].figures.times->step == rows[2].figures.times->step);  // the host decides it
  CHECK(report.best->point.values == std::vector<std::string>{"1"});
}

TEST_CASE("what limits a search is what the simulations beyond the limit say") {
  SearchRequest request;
  request.source = kSearchSamples + "tiny_fsdp2.toml";
  SECTION("the least bound is not the fastest point") {
    request.vary = {"parallel.strategy=ddp,fsdp2,deepcompile"};
    const auto rows = all_points(request);
    REQUIRE(rows[0].figures.times->step < rows[1].figures.times->step);
    request.memory_limit = *device_memory(rows[0].figures) - 1;
    const SearchReport report = found(request);
    REQUIRE(report.best.has_value());
    REQUIRE(report.best->point.figures.times->step > rows[0].figures.times->step);
    CHECK(report.best->limited_by == "memory");
    CHECK(report.best->because.starts_with("a point beyond the limit is "));
  }
  SECTION("a low bound alone is no reason to buy memory") {
    request.vary = {"parallel.world_size=,8,64", "cluster.gpus_per_node=8,4,2"};
    const auto rows = all_points(request);
    Bytes least = *device_memory(rows[0].figures);
    for (const run::SweepPoint& row : rows) {
      REQUIRE(row.figures.times->step == rows[0].figures.times->step);
      least = std::min(least, *device_memory(row.figures));
    }
    request.memory_limit = least;
    const SearchReport report = found(request);
    REQUIRE(report.best.has_value());
    CHECK(report.best->limited_by == "host");
  }
  SECTION("points that were simulated count behind many bounds") {
    request.source = kSearchSamples + "llama2_7b_fsdp1.toml";
    request.sets = {"model.layers=4"};
    std::string scales = "what-if.scale=host:1";
    for (int i = 0; i < 20; ++i) scales += fmt::format(",host:{}", 0.01 + 0.0001 * i);
    request.vary = {"train.activation_checkpointing=none,first:1,first:2,full", scales};
    request.where = {"train.activation_checkpointing != none or what-if.scale != 'host:1'"};
    const auto rows = all_points(request);
    // One checkpointed block of four at full speed is a little beyond the limit.
    const auto row = std::ranges::find_if(rows, [](const run::SweepPoint& point) {
      return point.values == std::vector<std::string>{"first:1", "host:1"};
    });
    REQUIRE(row != rows.end());
    request.memory_limit = *device_memory(row->figures) - 1;
    const SearchReport report = found(request);
    REQUIRE(report.best.has_value());
    REQUIRE(report.best->point.figures.times->step > row->figures.times->step);
    CHECK(report.best->limited_by == "memory");
  }
  SECTION("no time makes a model fit a smaller device") {
    request.source = kSearchSamples + "llama3_8b_fsdp2.toml";
    request.vary = {"hw=a10,h100_sxm"};
    request.time_limit = 100 * kSecond;
    const SearchReport report = found(request);
    REQUIRE(report.best.has_value());
    CHECK(report.best->limited_by == "memory");
  }
}

TEST_CASE("a search of Llama-3.1-8B finds the best of 10,000 points with a fiftieth of them",
          "[.]") {
  SearchRequest request;
  request.source = kSearchSamples + "llama3_8b_fsdp2.toml";
  request.vary = {
      "train.activation_checkpointing=none,selective,selective:2,selective:4,full,first:4,first:8,"
      "first:16,first:24,first:28",
      "parallel.reshard_after_forward=,true,false,2,4",
      "train.micro_batch=1..5",
      "parallel.forward_prefetch=false,true",
      "parallel.reduce_dtype=fp32,bf16",
      "parallel.wrap=block,block_embed_head",
      "allocator.conf=,expandable_segments:True,max_split_size_mb:128,max_split_size_mb:512,"
      "roundup_power2_divisions:4"};
  request.memory_limit = 80 * GiB;
  const auto rows = all_points(request);
  REQUIRE(rows.size() == 10'000);
  for (const bool per_token : {false, true}) {
    request.per_token = per_token;
    const run::SweepPoint* expected = best_of(rows, request);
    REQUIRE(expected != nullptr);
    const SearchReport report = found(request);
    REQUIRE(report.best.has_value());
    CAPTURE(per_token, report.best->command, report.simulated, report.ruled_out, report.best->gap,
            report.best->limited_by);
    CHECK(report.simulated <= 200);
    if (per_token)
      CHECK(*gpu_time_per_token(report.best->point.figures) <=
            *gpu_time_per_token(expected->figures));
    else
      CHECK(report.best->point.figures.times->step <= expected->figures.times->step);
    CHECK(report.best->gap >= 0);
    CHECK(report.runners_up.size() == 3);
    UNSCOPED_INFO("simulated " << report.simulated);
  }
}

TEST_CASE("a search's answer is what simulate says of its command") {
  const test::Scratch scratch;
  SearchRequest request;
  request.source = kSearchSamples + "tiny_fsdp2.toml";
  request.vary = {"train.activation_checkpointing=none,full", "train.micro_batch=1,2",
                  "what-if.scale=,links:2"};
  request.memory_limit = GiB;
  request.database = scratch.path("search.db");
  const SearchReport report = found(request);
  REQUIRE(report.best.has_value());
  SimulateRequest simulation;
  simulation.sources.paths = {request.source};
  simulation.sets = {"train.activation_checkpointing=none", "train.micro_batch=1"};
  const Summary summary = simulate(simulation).value().summary;
  CHECK(report.best->point.figures.times->step == *summary.step_time());
  CHECK(report.best->time_bound == *summary.bound);
  CHECK(report.best->memory == summary.reserved() + summary.outside_allocator);
  CHECK(report.best->command == "foregather simulate " + request.source +
                                    " --set train.activation_checkpointing=none --set "
                                    "train.micro_batch=1");
  REQUIRE(report.warnings.size() == 1);  // steps of one and two sequences

  auto reader = store::SweepReader::open(request.database).value();
  std::int64_t rows = 0;
  while (reader.next().value()) ++rows;
  CHECK(rows == report.simulated);
}

TEST_CASE("a search warns of unequal tokens where bounds rule out the larger batch") {
  SearchRequest request;
  request.source = kSearchSamples + "llama3_8b_fsdp2.toml";
  request.vary = {"train.micro_batch=1,2"};
  request.memory_limit = 80 * GiB;
  const SearchReport report = found(request);
  CHECK(report.simulated == 1);
  CHECK(report.ruled_out == 1);
  REQUIRE(report.warnings.size() == 1);
  CHECK(report.warnings.front().find("different numbers of tokens") != std::string::npos);

  request.vary = {"train.micro_batch=1,64"};  // that the limit forbids
  CHECK(found(request).warnings.empty());
}

TEST_CASE("a search says what is warned of at its points") {
  SearchRequest request;
  request.source = kSearchSamples + "tiny_fsdp2.toml";
  request.vary = {"parallel.reduce_dtype=fp32,bf16"};
  request.sets = {"train.momentum=0.9"};
  request.memory_limit = GiB;
  const SearchReport report = found(request);
  REQUIRE(report.warnings.size() == 1);
  CHECK(report.warnings.front().starts_with(fmt::format("{0} of {0} points: ", report.simulated)));
  CHECK(report.warnings.front().find("momentum") != std::string::npos);
}

TEST_CASE("a search that cannot be says why") {
  SearchRequest request;
  request.source = kSearchSamples + "tiny_fsdp2.toml";
  request.vary = {"train.micro_batch=1,2"};
  CHECK(refused(request) ==
        "the limit is missing: expected --memory-limit 80GiB or --time-limit 300ms");
  request.memory_limit = GiB;
  request.where = {"train.micro_batch > 2 && train.micro_batch < 2"};
  CHECK(refused(request) == "--where: none of the points that were looked at meets the conditions");
  request.where.clear();
  request.vary = {"parallel.world_size=12"};
  request.sets = {"cluster.gpus_per_node=8"};
  CHECK(refused(request).starts_with("none of the points that were looked at can be predicted"));
  request.blocks = true;
  request.sets = {"train.activation_checkpointing=full"};
  CHECK(refused(request) ==
        "--blocks: train.activation_checkpointing is set for all points, too (--set): expected one "
        "of the two");
}

TEST_CASE("a search with a budget looks at all that it has time for") {
  SearchRequest request;
  request.source = kSearchSamples + "tiny_fsdp2.toml";
  request.sets = {"model.layers=1"};
  request.vary = {"train.micro_batch=1,2", "train.seq_len=1..4100"};
  request.memory_limit = 70 * GiB;
  request.budget = 1e-9;
  CHECK(refused(request) == "--budget: is over before the first point");
  request.where = {"train.seq_len >= 4099"};
  request.budget = 3600;
  const SearchReport report = found(request);
  // Without a budget a grid of so many points is not gone through.
  CHECK(report.info.points > 4096);
  CHECK(report.is_proved);
  CHECK(report.excluded == 2 * 4098);
  REQUIRE(report.best.has_value());
  CHECK(report.best->point.values == std::vector<std::string>{"1", "4099"});
}

TEST_CASE("a search's command is one for a shell, whatever the names") {
  const test::Scratch scratch;
  std::filesystem::create_directory(scratch.path("it's a $HOME"));
  const std::string folder = scratch.path("it's a $HOME/");
  std::filesystem::copy(kSearchSamples + "tiny_fsdp2.toml", folder + "tiny.toml");
  std::filesystem::copy(kSearchSamples + "configs", folder + "configs");
  SearchRequest request;
  request.source = folder + "tiny.toml";
  request.sets = {"allocator.conf="};
  request.vary = {"train.micro_batch=1"};
  request.memory_limit = GiB;
  const SearchReport report = found(request);
  CHECK(report.best->command == "foregather simulate '" + scratch.path("it'\\''s a $HOME/") +
                                    "tiny.toml' --set allocator.conf= --set train.micro_batch=1");
}
