#include "tasks/block_search.h"

#include <algorithm>
#include <random>

#include <catch2/catch.hpp>

#include "core/plan/block_ranges.h"
#include "sim/sweep/choice_program.h"
#include "tasks/block_rows.h"
#include "tasks/sweep_rows.h"
#include "tests/support/places.h"
#include "tests/support/repetitions.h"
#include "tests/support/scratch.h"
#include "tests/support/skip.h"

using namespace foregather;
using namespace foregather::tasks;

namespace {

const std::string kBlockSamples = test::source_dir() + "/traces/samples/";
const std::string kKey(kBlocksKey);

struct BlockInstance {
  std::string source;
  std::size_t blocks = 0;
  std::vector<std::string> sets;
};

constexpr int kBlockInstances = test::repetitions(20);

// Models of one kind of block or another, of at most 10 blocks, under several strategies.
std::vector<BlockInstance> block_instances() {
  std::mt19937 random(31);
  const auto any = [&](std::vector<std::string> texts) { return texts[random() % texts.size()]; };
  std::vector<BlockInstance> instances;
  const std::vector<std::string> sources{"tiny_fsdp2.toml", "gpt2_ddp.toml",
                                         "roberta_1gb_slow_network.toml", "llama2_7b_fsdp1.toml",
                                         "mixtral_8x7b_zero3.toml"};
  for (std::size_t i = 0; i < std::size_t{kBlockInstances}; ++i) {
    BlockInstance instance;
    instance.source = kBlockSamples + sources[i % sources.size()];
    instance.blocks = i == 5 ? 10 : 2 + random() % 6;
    instance.sets = {fmt::format("model.layers={}", instance.blocks),
                     "train.micro_batch=" + any({"1", "2", "4"}),
                     "train.seq_len=" + any({"128", "256", "512"}),
                     "allocator.conf=" + any({"", "expandable_segments:True"})};
    if (i % sources.size() == 0)
      instance.sets.push_back("parallel.reshard_after_forward=" + any({"true", "false"}));
    if (i % sources.size() == 3) instance.sets.push_back("train.grad_accum=2");
    instances.push_back(std::move(instance));
  }
  return instances;
}

sim::Choice block_set(std::uint32_t bits, std::size_t blocks) {
  sim::Choice choice(blocks);
  for (std::size_t i = 0; i < blocks; ++i) choice[i] = (bits >> i & 1) != 0;
  return choice;
}

Candidate with_set(const BlockInstance& instance, const sim::Choice& recomputed) {
  Candidate candidate{instance.sets, {}};
  candidate.sets.push_back(kKey + "=" + plan::checkpointing_of(recomputed));
  return candidate;
}

// The figures of every set.
std::vector<run::PointFigures> all_figures(const BlockInstance& instance, Candidates& candidates) {
  std::vector<run::PointFigures> figures;
  for (std::uint32_t bits = 0; bits < 1U << instance.blocks; ++bits) {
    CandidateGroup group;
    Candidates::Worker worker;
    auto each =
        candidates.predict(with_set(instance, block_set(bits, instance.blocks)), group, worker);
    if (!each) FAIL(each.error().text());
    figures.push_back(std::move(*each));
  }
  return figures;
}

SearchRequest request_for(const BlockInstance& instance) {
  SearchRequest request;
  request.source = instance.source;
  request.sets = instance.sets;
  request.blocks = true;
  return request;
}

SearchReport found_blocks(const SearchRequest& request) {
  auto report = search(request, [](std::int64_t) {});
  if (!report) FAIL(report.error().text());
  return std::move(*report);
}

std::int64_t least_within(const std::vector<run::PointFigures>& figures,
                          const SearchRequest& request) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const run::PointFigures& each : figures) {
    const auto memory = device_memory(each);
    if (!memory) continue;
    if (request.time_limit ? each.times->step > *request.time_limit
                           : *memory > *request.memory_limit)
      continue;
    least = std::min(least, request.time_limit ? *memory : each.times->step);
  }
  return least;
}

Result<BlockRows> rows_of(const BlockInstance& instance, const Candidates& candidates) {
  return block_rows(instance.blocks,
                    [&](const sim::Choice& recomputed, std::optional<double> clock) {
                      return candidates.loads(with_set(instance, recomputed), clock);
                    });
}

// No set takes less time than its rows say, or less memory.
void check_floors(const BlockInstance& instance, const BlockRows& rows,
                  const std::vector<run::PointFigures>& figures) {
  for (std::uint32_t bits = 0; bits < figures.size(); ++bits) {
    const sim::Choice choice = block_set(bits, instance.blocks);
    const auto memory = device_memory(figures[bits]);
    REQUIRE(memory.has_value());
    const sim::ChoiceRows floors{instance.blocks, rows.busy, rows.live, *memory};
    const sim::Judgement floor = sim::floor_of(floors, choice);
    CHECK(floor.cost <= figures[bits].times->step);
    CHECK(floor.excess == 0);
  }
}

}  // namespace

TEST_CASE("sets of blocks of 20 generated instances: the best of all, and bounds that are") {
  std::mt19937 random(7);
  int proved = 0, better = 0, bounded = 0;
  std::size_t rows_seen = 0;
  for (const BlockInstance& instance : block_instances()) {
    CAPTURE(instance.source, instance.sets);
    Candidates candidates(instance.source, workload_text(instance.source).value());
    const auto figures = all_figures(instance, candidates);
    const auto rows = rows_of(instance, candidates);
    if (!rows) FAIL(rows.error().text());
    CHECK_FALSE(rows->busy.empty());
    rows_seen += rows->live.size();
    check_floors(instance, *rows, figures);
    // Limits that some sets meet, and the two ends.
    const run::PointFigures& middle = figures[random() % figures.size()];
    for (const bool for_memory : {false, true}) {
      SearchRequest request = request_for(instance);
      if (for_memory)
        request.time_limit = middle.times->step;
      else
        request.memory_limit = *device_memory(middle);
      const std::int64_t least = least_within(figures, request);
      const SearchReport report = found_blocks(request);
      REQUIRE(report.best.has_value());
      REQUIRE(report.blocks.has_value());
      CHECK(report.blocks->is_proved);
      CHECK(report.blocks->floor == least);
      const std::int64_t reached =
          for_memory ? report.best->memory : report.best->point.figures.times->step;
      CHECK(reached == least);
      proved += report.blocks->is_proved ? 1 : 0;
      better += report.blocks->is_best ? 1 : 0;

      if (!sim::solver_name()) continue;
      sim::ChoiceRows program{instance.blocks, for_memory ? rows->live : rows->busy,
                              for_memory ? rows->busy : rows->live,
                              for_memory ? *request.time_limit : *request.memory_limit};
      const auto solved = sim::least_choice(program, {});
      if (!solved) FAIL(solved.error().text());
      REQUIRE(solved->has_value());
      CHECK((*solved)->floor <= least);
      CHECK((*solved)->floor > 0);
      ++bounded;
    }
  }
  CHECK(proved == 2 * kBlockInstances);
  CHECK(better > kBlockInstances / 2);
  CHECK(rows_seen > 2 * kBlockInstances);
  if (sim::solver_name()) CHECK(bounded == 2 * kBlockInstances);
}

TEST_CASE("blocks that differ in what they do to the clock: no set is faster than its rows say") {
  const test::Scratch scratch;
  const std::string model = scratch.write("deepseek.json", R"({
    "model_type": "deepseek_v3", "hidden_size": 4096, "intermediate_size": 16384,
    "num_hidden_layers": 5, "num_attention_heads": 32, "num_key_value_heads": 32,
    "kv_lora_rank": 128, "q_lora_rank": 256, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32,
    "v_head_dim": 64, "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2,
    "moe_intermediate_size": 1024, "first_k_dense_replace": 2, "vocab_size": 8192,
    "max_position_embeddings": 4096})");
  const BlockInstance instance{
      kBlockSamples + "tiny_fsdp2.toml",
      5,
      {"model.config=" + model, "train.seq_len=4096", "train.micro_batch=2"}};
  Candidates candidates(instance.source, workload_text(instance.source).value());
  const auto loads_of = [&](const sim::Choice& recomputed) {
    const auto loads = candidates.loads(with_set(instance, recomputed), std::nullopt);
    if (!loads) FAIL(loads.error().text());
    return *loads;
  };
  const auto clock_of = [&](std::uint32_t bits) { return loads_of(block_set(bits, 5)).clock; };
  CHECK(clock_of(1) == clock_of(2));
  CHECK(clock_of(1) != clock_of(16));
  const auto rows = rows_of(instance, candidates);
  if (!rows) FAIL(rows.error().text());
  CHECK_FALSE(rows->busy.empty());
  for (std::uint32_t bits = 0; bits < 32; ++bits) {
    const sim::Choice choice = block_set(bits, instance.blocks);
    const std::vector<Ns> busy = loads_of(choice).busy;
    for (const sim::ChoiceRow& row : rows->busy)
      CHECK(row.value(choice) <= *std::max_element(busy.begin(), busy.end()));
  }
  check_floors(instance, *rows, all_figures(instance, candidates));
}

TEST_CASE("a search of the blocks of Llama-3.1-8B beats the grid and says how far it may be off") {
  if (!sim::solver_name()) FOREGATHER_SKIP("built without GLPK");
  SearchRequest request;
  request.source = kBlockSamples + "llama3_8b_fsdp2.toml";
  request.vary = {kKey + "=none,full,first:8,first:16,first:24"};
  request.sets = {"allocator.conf=expandable_segments:True"};
  request.memory_limit = 60 * GiB;
  const SearchReport grid = found_blocks(request);
  request.blocks = true;
  SearchReport report = found_blocks(request);
  REQUIRE(report.best.has_value());
  REQUIRE(report.blocks.has_value());
  CHECK(report.blocks->blocks == 32);
  CHECK(report.blocks->is_best);
  CHECK(report.best->point.figures.times->step < grid.best->point.figures.times->step);
  CHECK(report.best->memory <= *request.memory_limit);
  CHECK(report.best->command.find(kKey + "=blocks:") != std::string::npos);
  REQUIRE(report.blocks->floor.has_value());
  CHECK(*report.blocks->floor <= report.best->point.figures.times->step);
  CHECK(report.blocks->gap < 0.1);
  CHECK(to_json(report).find("\"better\": true") != std::string::npos);
  if (test::kSanitized) return;
  CHECK(to_json(found_blocks(request)) == to_json(report));

  // With batches that vary the cheapest token wins.
  request.vary = {kKey + "=none,full", "train.micro_batch=1,2"};
  request.per_token = true;
  report = found_blocks(request);
  REQUIRE(report.best.has_value());
  REQUIRE(report.blocks->floor.has_value());
  const auto cost = gpu_time_per_token(report.best->point.figures);
  CHECK(*report.blocks->floor <= *cost);
  CHECK(*report.blocks->floor * 5 > *cost * 4);
}

TEST_CASE("of sets of blocks that cost the same, the one farther from the limit wins") {
  const BlockInstance instance{
      kBlockSamples + "gpt2_ddp.toml", 3, {"model.layers=3", "train.seq_len=512"}};
  Candidates candidates(instance.source, workload_text(instance.source).value());
  const auto figures = all_figures(instance, candidates);
  SearchRequest request = request_for(instance);
  request.memory_limit = *device_memory(figures[1]);  // of block 0 alone
  std::optional<std::pair<Ns, Bytes>> least;
  for (const run::PointFigures& each : figures) {
    const std::pair now(each.times->step, *device_memory(each));
    if (now.second <= *request.memory_limit && (!least || now < *least)) least = now;
  }
  const SearchReport report = found_blocks(request);
  REQUIRE(report.best.has_value());
  CHECK(report.best->point.figures.times->step == least->first);
  CHECK(report.best->memory == least->second);
  REQUIRE(figures[1].times->step == least->first);
  CHECK(report.best->memory < *device_memory(figures[1]));
}

TEST_CASE("a search of blocks that cannot be says why") {
  SearchRequest request;
  request.blocks = true;
  request.memory_limit = GiB;
  const auto refusal = [&] {
    const auto report = search(request, [](std::int64_t) {});
    return report ? "" : report.error().text();
  };
  request.source = kBlockSamples + "thunder_tied_linear.txt";
  CHECK(refusal() == "--blocks: needs a workload (.toml): " + request.source + " is none");
  request.source = kBlockSamples + "nested_fsdp1.toml";
  CHECK(refusal().find("no repeated blocks") != std::string::npos);
}

TEST_CASE("settings that cannot be, or are excluded, leave what is said of the other sets") {
  SearchRequest request;
  request.source = kBlockSamples + "gpt2_ddp.toml";
  request.sets = {"model.layers=5"};
  request.memory_limit = Bytes{10'000'000'000};
  request.blocks = true;
  const BlockSearch alone = *found_blocks(request).blocks;
  CHECK(alone.is_proved);
  request.vary = {"parallel.reduce_dtype=fp32,bf16"};  // DDP reduces in fp32
  const BlockSearch impossible = *found_blocks(request).blocks;
  CHECK(impossible.is_proved);
  CHECK(impossible.simulated == alone.simulated);
  request.vary = {"train.seq_len=1024,512"};
  request.where = {"train.seq_len == 1024"};
  const BlockSearch excluded = *found_blocks(request).blocks;
  CHECK(excluded.is_proved);
  CHECK(excluded.simulated == alone.simulated);
}

TEST_CASE("rows of blocks are none where a set changes what else is launched") {
  const auto rows = block_rows(2, [](const sim::Choice& recomputed, std::optional<double>) {
    ScheduleLoads loads;
    loads.clock = 1;
    loads.busy.resize(recomputed[1] ? 2 : 1);
    loads.live.resize(1);
    return Result<ScheduleLoads>(loads);
  });
  REQUIRE_FALSE(rows);
  CHECK(rows.error().text() == "recomputing a block changes what else is launched");
}

TEST_CASE("a budget for sets of blocks lasts until the answer is proved") {
  const BlockInstance instance{
      kBlockSamples + "gpt2_ddp.toml", 3, {"model.layers=3", "train.seq_len=512"}};
  SearchRequest request = request_for(instance);
  request.memory_limit = 70 * GiB;
  const SearchReport without = found_blocks(request);
  request.budget = 3600;
  const SearchReport with = found_blocks(request);
  REQUIRE((with.best && without.best));
  CHECK(with.blocks->is_proved);
  CHECK(with.best->point.figures.times->step == without.best->point.figures.times->step);
  CHECK(with.best->memory == without.best->memory);
}
