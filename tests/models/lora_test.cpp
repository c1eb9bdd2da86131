// LoRA by hand: what a step of a two-layer Llama holds at its peak, to the byte.
#include <algorithm>
#include <fstream>
#include <string>
#include <utility>
#include <vector>
#include <catch2/catch.hpp>

#include "core/ir/validate.h"
#include "core/plan/lower.h"
#include "core/plan/model.h"
#include "core/plan/workload_toml.h"
#include "tasks/simulate.h"
#include "tests/models/simulated.h"
#include "tests/unit/plan/temporary_file.h"

using namespace foregather;
using namespace foregather::test;

namespace {

constexpr const char* kConfig = R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
  "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
  "intermediate_size": 128, "vocab_size": 256, "max_position_embeddings": 64})";

std::string workload(const std::string& config, const std::string& strategy) {
  return "[model]\nconfig = \"" + config + R"("
[train]
micro_batch = 1
seq_len = 64
precision = "bf16"
trainable = "lora"
lora_rank = 8
optimizer_impl = "fused"
clip_grad_norm = false
[parallel]
world_size = 2
reduce_dtype = "bf16"
strategy = ")" +
         strategy + "\"\n";
}

tasks::Summary summary_of(const std::string& strategy, const std::vector<std::string>& sets = {}) {
  const TemporaryFile config(kConfig);
  const TemporaryFile source(workload(config.path(), strategy));
  tasks::SimulateRequest request;
  request.sources.paths = {source.path()};
  request.sets = sets;
  auto outcome = tasks::simulate(request);
  if (!outcome) FAIL(outcome.error().text());
  return outcome->summary;
}

// Elements.
constexpr Bytes kHidden = 64, kInner = 128, kVocab = 256, kTokens = 64, kHeads = 4, kRank = 8;
constexpr Bytes kBlock = 4 * kHidden * kHidden + 3 * kHidden * kInner + 2 * kHidden;
constexpr Bytes kAdapters = 2 * (kRank * kHidden + kHidden * kRank);  // of query and value
constexpr Bytes kRoot = 2 * kVocab * kHidden + kHidden;
constexpr Bytes kWide = 2;  // bytes of bf16

}  // namespace

TEST_CASE("the peak of LoRA under FSDP2 is the sum by hand") {
  const Bytes shards = (kRoot + 2 * (kBlock + kAdapters)) / 2 * kWide;
  // Two states of half of the adapters, and a counter for each of eight tensors.
  const Bytes states = 2 * (2 * kAdapters / 2) * kWide + 8 * 4;
  const Bytes row = kTokens * kHidden * kWide;
  const Bytes inner = kTokens * kInner * kWide;
  // Query, key, value and output of attention, its logsumexp and random state.
  const Bytes attention = 4 * row + 4 * kTokens * kHeads + 24;
  // The residual and its norm's statistics; gate, silu and up. Frozen linears save no input: not
  // the mlp norm's output, not the product.
  const Bytes mlp = row + 4 * kTokens + 3 * inner;
  // Adapters A save the norm's output (one tensor for both), adapters B what A made.
  const Bytes adapters = row + 2 * kTokens * kRank * kWide;
  const Bytes first = adapters + attention + mlp;  // its input needs no gradient
  const Bytes second = row + 4 * kTokens + first;  // its input and the norm's statistics
  const Bytes head = row + 4 * kTokens;
  const Bytes tables = 2 * kTokens * (kHidden / kHeads) * kWide;
  const Bytes logits = kTokens * kVocab * 4;
  // The backward of log_softmax: its output is saved, its gradient comes in, one goes out. The root
  // is unsharded, the last block's parameters are being gathered.
  const Bytes unsharded = kRoot * kWide;
  const Bytes gathered = (kBlock + kAdapters) * kWide;
  const Bytes loss = 4;                   // the caller's variable
  const Bytes workspaces = 2 * 32 * MiB;  // cuBLAS's on H100, a thread
  const Bytes by_hand = shards + states + first + second + head + tables + 3 * logits + unsharded +
                        gathered + loss + workspaces;

  const tasks::Summary summary = summary_of("fsdp2");
  CHECK(summary.parameters == kRoot + 2 * (kBlock + kAdapters));
  CHECK(summary.slow().memory.peaks.requested == by_hand);
  CHECK(summary.slow().first_memory.peaks.requested == by_hand - states);
}

TEST_CASE("only adapters have gradients and optimizer states") {
  for (const char* strategy : {"fsdp2", "ddp"}) {
    INFO(strategy);
    const TemporaryFile config(kConfig);
    const TemporaryFile source(workload(config.path(), strategy));
    auto read = plan::read_workload(source.path(), {});
    REQUIRE(read);
    auto shape = plan::read_model(*read);
    REQUIRE(shape);
    const auto graph = plan::lower(plan::build_model(*shape, *read), *read);
    REQUIRE(graph);
    const Bytes share = std::string(strategy) == "ddp" ? 1 : 2;
    const Bytes type = share == 1 ? 4 : kWide;  // PEFT's are fp32; FSDP2 has one dtype for all
    CHECK(bytes_of(*graph, Cause::optimizer_state) == 2 * 2 * kAdapters / share * type + 8 * 4);
    CHECK(bytes_of(*graph, Cause::reduced_gradient) ==
          (share == 1 ? 0 : 2 * kAdapters / share * kWide));
    for (const Storage& storage : graph->storages) {
      const std::string name(graph->text(storage.name));
      if (storage.cause == Cause::gradient && storage.bytes > 0 && share == 2)
        CHECK(name.find("lora") != std::string::npos);
    }
  }
}

TEST_CASE("fp32 adapters are reduced and updated in fp32, under every strategy that has them") {
  const std::vector<std::vector<std::string>> variants{
      {"parallel.strategy=fsdp1", "parallel.reduce_dtype=fp32", "parallel.shard_size=1"},
      {"parallel.strategy=fsdp1", "parallel.reduce_dtype=fp32", "parallel.world_size=4",
       "parallel.shard_size=2"},
      {"parallel.strategy=fsdp1", "parallel.param_dtype=fp32"},
      {"parallel.strategy=fsdp1", "parallel.sharding=no_shard"},
      {"parallel.strategy=fsdp1", "parallel.offload=all"},
      {"parallel.strategy=ddp", "parallel.reduce_dtype=fp32"},
      {"parallel.strategy=ddp", "parallel.gradient_as_bucket_view=true"},
      {"parallel.strategy=ddp", "train.optimizer_state=fp32"},
      {"parallel.strategy=ddp", "train.lora_autocast=true", "train.compile=full"},
      {"parallel.strategy=fsdp1", "train.lora_autocast=true",
       "train.activation_checkpointing=full"},
      {"parallel.strategy=ddp", "train.optimizer_state=bf16"},
      {"parallel.strategy=single", "parallel.world_size=1"}};
  for (const auto& variant : variants)
    for (const char* accumulation : {"1", "3"}) {
      std::string all;
      for (const std::string& set : variant) all += set + ' ';
      INFO(all << accumulation);
      const bool is_one = variant.front().ends_with("single");
      const TemporaryFile config(kConfig);
      const TemporaryFile source(workload(config.path(), "fsdp1"));
      std::vector<std::string> sets = variant;
      sets.push_back(std::string("train.grad_accum=") + accumulation);
      if (!is_one) sets.emplace_back("train.no_sync=true");
      auto read = plan::read_workload(source.path(), sets);
      if (!read) FAIL(read.error().text());
      const auto shape = plan::read_model(*read);
      REQUIRE(shape);
      REQUIRE(plan::resolve_workload(*read, *shape));
      const auto graph = plan::lower(plan::build_model(*shape, *read), *read);
      if (!graph) FAIL(graph.error().text());
      for (const Problem& problem : validate(*graph)) FAIL_CHECK(problem.message);
    }
}

TEST_CASE("fp32 adapters save their input in fp32, and make the sum with their linear in it") {
  const auto peak = [](const std::string& strategy, const char* wide) {
    const std::string ranks = strategy == "single" ? "1" : "2";
    return summary_of(strategy,
                      {std::string("train.lora_fp32=") + wide, "parallel.world_size=" + ranks})
        .slow()
        .memory.peaks.requested;
  };
  // The norm's output in fp32 for each of two adapters A instead of once as it is, in two blocks;
  // what A made in fp32; fp32 weights and states. Gradients are made later; DDP has a bucket of
  // them.
  constexpr Bytes kRow = kTokens * kHidden * kWide, kLow = kTokens * kRank * kWide;
  constexpr Bytes kMore = 2 * (2 * 2 * kRow - kRow + 2 * kLow) + 3 * 2 * kAdapters * kWide;
  CHECK(peak("single", "true") - peak("single", "false") == kMore);
  CHECK(peak("ddp", "true") - peak("ddp", "false") == kMore + 2 * kAdapters * kWide);
  CHECK(peak("fsdp2", "true") == peak("fsdp2", "false"));
}

TEST_CASE("fp32 adapters under autocast save 16-bit copies of their input and weights") {
  const auto peak = [](const char* key) {
    return summary_of("single", {key, "parallel.world_size=1"}).slow().memory.peaks.requested;
  };
  // Of the norm's output each adapter A has its own copy, in two blocks; fp32 weights and states.
  // The first block's input needs no gradient, for which alone weights of A are saved.
  constexpr Bytes kRow = kTokens * kHidden * kWide, kCopies = kAdapters * kWide;
  constexpr Bytes kMore = 2 * (2 * kRow - kRow + kCopies) - kCopies / 2 + 3 * 2 * kCopies;
  CHECK(peak("train.lora_autocast=true") - peak("train.lora_fp32=false") == kMore);
}

TEST_CASE("products of adapters are fp32, and 16 bits wide under autocast") {
  const auto wide_products = [](const char* strategy, const char* autocast) {
    const TemporaryFile config(kConfig);
    const TemporaryFile source(workload(config.path(), strategy));
    auto read = plan::read_workload(
        source.path(), {std::string("train.lora_autocast=") + autocast, "train.lora_dropout=0.1"});
    REQUIRE(read);
    const auto shape = plan::read_model(*read);
    REQUIRE(shape);
    const auto graph = plan::lower(plan::build_model(*shape, *read), *read);
    REQUIRE(graph);
    std::size_t count = 0;
    for (const OpId id : body_ops(*graph)) {
      const Op& op = graph->at(id);
      count += op.kind == OpKind::gemm && graph->at(op.cost).dtype == DType::f32;
    }
    return count;
  };
  for (const char* strategy : {"ddp", "fsdp1"}) {
    INFO(strategy);
    // A and B of query and value of two blocks; the first block's A have no gradient to hand on.
    CHECK(wide_products(strategy, "false") == 2 * 4 * 3 - 2);
    CHECK(wide_products(strategy, "true") == 0);
  }
}

TEST_CASE("FSDP1 shards adapters apart from the frozen block that they are in") {
  const auto lowered = [](const std::vector<std::string>& sets) {
    const TemporaryFile config(kConfig);
    const TemporaryFile source(workload(config.path(), "fsdp1"));
    auto read = plan::read_workload(source.path(), sets);
    REQUIRE(read);
    auto shape = plan::read_model(*read);
    REQUIRE(shape);
    auto graph = plan::lower(plan::build_model(*shape, *read), *read);
    REQUIRE(graph);
    for (const Problem& problem : validate(*graph)) FAIL_CHECK(problem.message);
    return std::move(*graph);
  };
  const auto count = [](const Graph& graph, OpKind kind) {
    std::size_t ops = 0;
    for (const OpId op : body_ops(graph)) ops += graph.at(op).kind == kind ? 1 : 0;
    return ops;
  };
  constexpr std::size_t kLeaves = 2 * 4;  // A and B of query and value, of two blocks
  const Graph apart = lowered({});
  CHECK(bytes_of(apart, Cause::optimizer_state) == 2 * 2 * kAdapters / 2 * 4 + kLeaves * 4);
  CHECK(count(apart, OpKind::reduce_scatter) == kLeaves);
  // The root stays gathered, and so does the first block as nothing before it is trained.
  CHECK(count(apart, OpKind::all_gather) == 1 + 2 * 2 + 2 * kLeaves);
  for (const char* checkpointing : {"full", "selective"})
    CHECK(count(lowered({std::string("train.activation_checkpointing=") + checkpointing}),
                OpKind::all_gather) == 1 + 2 * 2 + 3 * kLeaves);
  // Within reentrant checkpoints each block is gathered once more, and the frozen ones keep the
  // gradients of their inputs until the backward ends.
  const Graph around =
      lowered({"train.activation_checkpointing=full", "parallel.reentrant_checkpoints=true"});
  CHECK(count(around, OpKind::all_gather) == 1 + 2 * 3 + 3 * kLeaves);
  const auto kept = std::ranges::count_if(around.storages, [&](const Storage& storage) {
    return around.text(storage.name) == "gradient of the input";
  });
  CHECK(kept == 2);
  // Blocks of which nothing ahead is trained have no backward, and keep nothing.
  const auto activations = [&](const char* reentrant) {
    return bytes_of(lowered({"train.trainable=lm_head", "parallel.use_orig_params=false",
                             "train.activation_checkpointing=full",
                             std::string("parallel.reentrant_checkpoints=") + reentrant}),
                    Cause::activation);
  };
  CHECK(activations("true") == activations("false"));
  const auto accumulated = [&](const char* count_of) {
    return count(lowered({"parallel.sharding=shard_grad_op", "train.no_sync=true",
                          std::string("train.grad_accum=") + count_of}),
                 OpKind::all_gather);
  };
  CHECK(accumulated("3") == accumulated("2"));

  // What is gathered and reduced has the dtype of its unit.
  const auto message_bytes = [](const Graph& graph, OpKind kind) {
    Bytes bytes = 0;
    for (const OpId op : body_ops(graph))
      if (graph.at(op).kind == kind) bytes += graph.at(graph.at(op).cost).message_bytes;
    return bytes;
  };
  const Graph narrow = lowered({"train.lora_fp32=false"});
  CHECK(message_bytes(apart, OpKind::reduce_scatter) == 2 * kAdapters * 4);
  CHECK(message_bytes(narrow, OpKind::reduce_scatter) == 2 * kAdapters * kWide);
  CHECK(message_bytes(apart, OpKind::all_gather) - message_bytes(narrow, OpKind::all_gather) ==
        2 * 2 * kAdapters * kWide);

  const Graph mixed = lowered({"parallel.use_orig_params=true"});
  CHECK(count(mixed, OpKind::reduce_scatter) == 2);
  CHECK(summary_of("fsdp1").slow().memory.peaks.requested <
        summary_of("fsdp1", {"parallel.use_orig_params=true"}).slow().memory.peaks.requested);
}

TEST_CASE("of an FSDP1 shard group the rank is lowered whose optimizer has most to do") {
  const auto lowered = [](std::vector<std::string> sets) {
    sets.insert(sets.end(), {"train.clip_grad_norm=true", "parallel.use_orig_params=true"});
    const TemporaryFile config(kConfig);
    const TemporaryFile source(workload(config.path(), "fsdp1"));
    auto read = plan::read_workload(source.path(), sets);
    REQUIRE(read);
    auto shape = plan::read_model(*read);
    REQUIRE(shape);
    auto graph = plan::lower(plan::build_model(*shape, *read), *read);
    REQUIRE(graph);
    for (const Problem& problem : validate(*graph)) FAIL_CHECK(problem.message);
    return std::move(*graph);
  };
  const auto states = [&](const std::vector<std::string>& sets) {
    Bytes bytes = 0;
    for (const Storage& storage : lowered(sets).storages)
      if (storage.cause == Cause::optimizer_state && storage.bytes > 4) bytes += storage.bytes;
    return bytes;
  };
  // A block's attention comes first in its flat parameter, its mlp last: the ranks in the middle of
  // eight hold nothing else than that.
  constexpr Bytes kMlp = 3 * kHidden * kInner;
  constexpr Bytes kShare = kBlock / 8;
  CHECK(states({"train.trainable=mlp", "parallel.world_size=2"}) > 2 * 2 * kMlp / 2 * kWide);
  CHECK(states({"train.trainable=mlp", "parallel.world_size=8"}) == 2 * 2 * kShare * kWide);
  CHECK(states({"parallel.world_size=64"}) > 2 * 2 * kAdapters / 64 * kWide);
  // Without states it is the one that updates most.
  const Graph sgd = lowered(
      {"train.trainable=mlp", "parallel.world_size=8", "train.optimizer=sgd", "train.momentum=0"});
  Bytes updated = 0;
  for (const Op& op : sgd.ops)
    if (op.phase == Phase::optimizer && op.role == Role::optimizer)
      updated += sgd.at(op.cost).bytes_written;
  CHECK(updated == 2 * kShare * kWide);
}
