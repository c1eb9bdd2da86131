// Blocks against what real PyTorch and Hugging Face transformers did with them:
// tests/oracles/data/block_memory.json, fsdp2_memory.json and thunder_saved.json.
#include <algorithm>
#include <array>
#include <fstream>
#include <string>
#include <vector>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/places.h"
#include "tests/unit/plan/model_live_bytes.h"
#include "tests/unit/plan/temporary_file.h"

using namespace foregather;
using namespace foregather::plan;
using namespace foregather::test;
using Json = nlohmann::json;

namespace {

Json read_json(const std::string& name) {
  std::ifstream file(test::source_dir() + "/tests/oracles/data/" + name);
  return Json::parse(file);
}

ModelConfig config_of(const Json& json) {
  const auto size = [&](const char* key, std::int64_t fallback) {
    return json.contains(key) && !json[key].is_null() ? json[key].get<std::int64_t>() : fallback;
  };
  const auto flag = [&](const char* key) { return json.contains(key) && json[key].get<bool>(); };
  ModelConfig c;
  c.model_type = json["model_type"];
  c.layers = 1;
  c.vocab = size("vocab_size", 0);
  if (c.model_type == "gpt2") {
    c.family = ModelConfig::Family::gpt2;
    c.hidden = size("n_embd", 0);
    c.heads = c.kv_heads = size("n_head", 0);
    c.head_dim = c.hidden / c.heads;
    c.intermediate = 4 * c.hidden;
    c.max_positions = size("n_positions", 0);
    c.qkv_bias = c.output_bias = c.mlp_bias = true;
    c.tied_embeddings = true;
    return c;
  }
  c.hidden = size("hidden_size", 0);
  c.heads = size("num_attention_heads", 0);
  c.kv_heads = size("num_key_value_heads", 0);
  c.head_dim = size("head_dim", c.hidden / c.heads);
  c.intermediate = size("intermediate_size", 0);
  c.max_positions = size("max_position_embeddings", 0);
  c.qkv_bias = flag("attention_bias") || c.model_type == "qwen2";
  c.output_bias = flag("attention_bias");
  c.mlp_bias = flag("mlp_bias");
  c.qk_norm = c.model_type == "qwen3";
  return c;
}

DType dtype_of(const Json& row) { return row["dtype"] == "f32" ? DType::f32 : DType::bf16; }

std::vector<Bytes> saved_sizes(const Tape& tape) {
  const SavedValues saved = saved_values(tape, SavePolicy::none);
  std::vector<Bytes> sizes;
  for (std::size_t v = 0; v < tape.values.size(); ++v)
    if (saved.saved[v] && !tape.values[v].is_view && v != tape.input)
      sizes.push_back(tape.values[v].bytes);
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

using Matmul = std::array<std::int64_t, 4>;

std::vector<Matmul> matmuls(const Tape& tape) {
  std::vector<Matmul> rows;
  for (const auto* ops : {&tape.forward, &tape.backward})
    for (const TapeOp& op : *ops)
      if (op.cost.kind == OpKind::gemm)
        rows.push_back({op.cost.batch, op.cost.m, op.cost.n, op.cost.k});
  return rows;
}

// The side of a weight's gradient that is not aligned is n (TapeBuilder::weight_gemm).
std::vector<Matmul> aligned_first(std::vector<Matmul> rows) {
  for (auto& [batch, m, n, k] : rows)
    if (m % 8 != 0 && n % 8 == 0) std::swap(m, n);
  return rows;
}

/// PyTorch keeps each Python number that scales a tensor, and the gradient that a backward starts
/// from, as a scalar, on a CPU in the account of everything else.
constexpr Bytes kScalars = 64;

void check_near(Bytes ours, Bytes recorded) {
  CHECK(ours <= recorded + kScalars);
  CHECK(ours >= recorded - kScalars);
}

void check_peaks(const Tape& tape, SavePolicy policy, const Json& recorded, Bytes margin = 0) {
  INFO("policy " << static_cast<int>(policy));
  const LiveBytes live = live_bytes(tape, policy);
  check_near(live.after_forward - tape.values[tape.output].bytes, recorded["saved_bytes"]);
  check_near(live.forward_peak, recorded["forward_peak_bytes"]);
  const Bytes backward_peak = recorded["backward_peak_bytes"];
  CHECK(live.backward_peak <= backward_peak + margin + kScalars);
  CHECK(live.backward_peak >= backward_peak - margin - kScalars);
  check_near(live.after_backward, recorded["after_backward_bytes"]);
}

}  // namespace

TEST_CASE("a block saves, computes and peaks as Hugging Face's does") {
  const Json oracle = read_json("block_memory.json");
  for (const Json& row : oracle["cases"]) {
    INFO(row["name"] << " " << row["dtype"]);
    Train train;
    train.micro_batch = oracle["batch"];
    train.seq_len = oracle["positions"];
    train.compute = dtype_of(row);
    train.attention = Attention::eager;
    Implementation implementation;
    implementation.fused_rms_norm = false;
    const TemporaryFile file(row["config"].dump());
    const Result<ModelConfig> config = read_model_config(file.path());
    if (!config) FAIL(config.error().text());
    const Model model = build_model(*config, train, implementation);
    const Tape& block = model.tapes[model.modules[1 + row.value("layer", 0U)].tape];
    CHECK(malformed(block) == "");
    CHECK(saved_sizes(block) == row["saved"].get<std::vector<Bytes>>());
    CHECK(matmuls(block) == aligned_first(row["matmuls"].get<std::vector<Matmul>>()));
    if (!row.contains("forward_peak_bytes")) continue;
    // The gradient of a division of routing weights is one op here, not six.
    const Bytes routing = 2 * 4 * train.micro_batch * train.seq_len * config->experts.active;
    check_peaks(block, SavePolicy::none, row, routing);
    check_peaks(block, SavePolicy::full, row["full"], routing);
    check_peaks(block, SavePolicy::selective_op, row["selective"], routing);
  }
}

TEST_CASE("a head saves and peaks as Hugging Face's does") {
  const Json oracle = read_json("block_memory.json");
  for (const Json& row : oracle["heads"]) {
    INFO(row["name"] << " " << row["dtype"]);
    Train train;
    train.micro_batch = oracle["batch"];
    train.seq_len = oracle["positions"];
    train.compute = dtype_of(row);
    Implementation implementation;
    implementation.fused_rms_norm = false;
    const TemporaryFile file(row["config"].dump());
    const Result<ModelConfig> config = read_model_config(file.path());
    if (!config) FAIL(config.error().text());
    const Model model = build_model(*config, train, implementation);
    CHECK(malformed(model.tapes.back()) == "");
    check_peaks(model.tapes.back(), SavePolicy::none, row);
  }
}

TEST_CASE("a block saves what the tiny models of the oracles save") {
  const Json oracle = read_json("fsdp2_memory.json")["saved"];
  for (const Json& row : oracle["cases"]) {
    INFO(row["model"] << " " << row["dtype"] << " " << row["attention"]);
    ModelConfig config = config_of(oracle["models"][row["model"].get<std::string>()]);
    config.fused_gelu = row.contains("gelu") && row["gelu"] == "fused";
    const bool is_gpt2 = config.family == ModelConfig::Family::gpt2;
    Train train;
    train.micro_batch = oracle["batch"][0];
    train.seq_len = oracle["batch"][1];
    train.compute = dtype_of(row);
    train.attention = row["attention"] == "eager" ? Attention::eager : Attention::sdpa;
    Implementation implementation;
    implementation.fused_rms_norm = false;
    implementation.repeat_kv = true;
    const Model model = build_model(config, train, implementation);
    const Tape& block = model.tapes[1];
    const SavedValues values = saved_values(block, SavePolicy::none);
    const Bytes saved =
        values.saved_bytes + (values.saved[block.input] ? block.values[block.input].bytes : 0);
    Bytes expected = row["bytes"].get<Bytes>();
    // The tiny Llama makes its rotary tables in each block.
    if (!is_gpt2) expected -= 2 * train.seq_len * config.head_dim * size_of(train.compute);
    // The tiny GPT-2 has Llama's fp32 softmax.
    if (is_gpt2 && train.attention == Attention::eager && train.compute == DType::bf16)
      expected -= train.micro_batch * config.heads * train.seq_len * train.seq_len * 4;
    // CUDA's kernels save the random state (fp32 inputs: two scalars; flash: three words).
    if (train.attention == Attention::sdpa) expected += train.compute == DType::f32 ? 16 : 24;
    // A CPU keeps LayerNorm's statistics in bf16, CUDA in fp32: 4 of 2·128 rows.
    if (is_gpt2 && train.compute == DType::bf16) expected += 4 * 256 * 2;
    CHECK(saved == expected);
  }
}

namespace {

/// "bfloat16 [1, 64, 2048]" → bytes.
Bytes tensor_bytes(const std::string& text) {
  Bytes bytes = text.starts_with("float32") ? 4 : 2;
  for (const Json& size : Json::parse(text.substr(text.find('[')))) bytes *= size.get<Bytes>();
  return bytes;
}

/// Of floating-point numbers: seeds of attention's dropout are left out.
std::vector<Bytes> tensor_bytes(const Json& saved) {
  std::vector<Bytes> sizes;
  for (const auto& [tensor, count] : saved.items())
    if (!tensor.starts_with("int"))
      sizes.insert(sizes.end(), count.get<int>(), tensor_bytes(tensor));
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

Model litgpt_block(const Json& block) {
  ModelConfig c;
  c.model_type = "llama";
  c.layers = 1;
  c.vocab = 32'000;
  c.hidden = block["hidden"];
  c.heads = block["heads"];
  c.kv_heads = block["kv_heads"];
  c.head_dim = c.hidden / c.heads;
  c.intermediate = block["intermediate"];
  c.max_positions = 4096;
  Train train;
  train.seq_len = block["tokens"];
  train.micro_batch = 1;
  train.compute = DType::bf16;
  train.compile = Compile::thunder;
  Implementation implementation;
  implementation.repeat_kv = true;
  return build_model(c, train, implementation);
}

}  // namespace

TEST_CASE("a block that Thunder compiles saves what Thunder's traces save") {
  const Json recorded = read_json("thunder_saved.json");
  for (const auto& [version, row] : recorded.items())
    for (const Json& block : row["blocks"]) {
      INFO(version << " " << block["model"]);
      const Model model = litgpt_block(block);
      const Tape& tape = model.tapes[1];
      CHECK(malformed(tape) == "");
      std::vector<Bytes> ours = saved_sizes(tape);
      std::erase_if(ours, [](Bytes bytes) { return bytes <= kScalars; });
      // A block's output is the next one's input, which saved_sizes() leaves out.
      ours.push_back(tape.values[tape.output].bytes);
      // litgpt_block() has three products, after which attention lies by tokens; LitGPT's is copied
      // for the next linear (core/plan/build_attention.cpp).
      ours.push_back(tape.values[tape.output].bytes);
      std::sort(ours.begin(), ours.end());
      CHECK(ours == tensor_bytes(block["saved"]));
    }
}
