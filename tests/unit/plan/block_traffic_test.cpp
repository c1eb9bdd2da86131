// What the eager kernels of a block move, and which of them find their elements one by one.
#include <algorithm>
#include <fstream>
#include <vector>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/places.h"
#include "tests/unit/plan/model_live_bytes.h"
#include "tests/unit/plan/temporary_file.h"

using namespace foregather;
using namespace foregather::plan;
using namespace foregather::test;

namespace {

// The second block: its input has a gradient whatever is trained.
Tape eager_block_of(ModelConfig config, std::int64_t tokens, Compile compile,
                    const Trainable& trainable = {}) {
  config.layers = 2;
  Train train;
  train.trainable = trainable;
  train.micro_batch = 1;
  train.seq_len = tokens;
  train.compute = DType::bf16;
  train.compile = compile;
  Implementation implementation;
  implementation.fused_rms_norm = false;
  implementation.repeat_kv = false;
  const Model model = build_model(config, train, implementation);
  return model.tapes[(std::ranges::find_if(model.modules, &Module::is_block) + 1)->tape];
}

Bytes bytes_moved(const std::vector<TapeOp>& ops) {
  Bytes sum = 0;
  for (const TapeOp& op : ops)
    if (op.cost.kind != OpKind::gemm && op.cost.kind != OpKind::attention)
      sum += op.cost.bytes_read + op.cost.bytes_written;
  return sum;
}

std::int64_t places_of(const std::vector<TapeOp>& ops) {
  std::int64_t sum = 0;
  for (const TapeOp& op : ops)
    if (op.cost.kind == OpKind::elementwise || op.cost.kind == OpKind::copy ||
        op.cost.kind == OpKind::cast)
      sum += op.cost.m;
  return sum;
}

/// The recording's adapters, if it has any.
Trainable trainable_of(const nlohmann::json& row) {
  Trainable trainable;
  if (!row.contains("lora")) return trainable;
  const nlohmann::json& lora = row["lora"];
  trainable.kind = Trainable::Kind::lora;
  trainable.rank = lora["r"].get<std::int64_t>();
  trainable.targets = lora["target_modules"].get<std::vector<std::string>>();
  trainable.wide_adapters = lora["fp32"].get<bool>();
  trainable.autocasts_adapters = lora["autocast"].get<bool>();
  return trainable;
}

}  // namespace

TEST_CASE("eager blocks of transformers move the bytes that PyTorch dispatches") {
  std::ifstream file(test::source_dir() + "/tests/oracles/data/block_traffic.json");
  const nlohmann::json recorded = nlohmann::json::parse(file);
  for (const nlohmann::json& row : recorded["cases"]) {
    INFO(row["name"].get<std::string>());
    const TemporaryFile json(row["config"].dump());
    const Result<ModelConfig> config = read_model_config(json.path());
    REQUIRE(config);
    const Tape block = eager_block_of(*config, row["tokens"].get<std::int64_t>(), Compile::none,
                                      trainable_of(row));
    const auto bytes = [&](const char* pass) { return row[pass]["bytes"].get<double>(); };
    CHECK(static_cast<double>(bytes_moved(block.forward)) ==
          Approx(bytes("forward")).epsilon(0.03));
    CHECK(static_cast<double>(bytes_moved(block.backward)) ==
          Approx(bytes("backward")).epsilon(0.03));
  }
}

TEST_CASE("rotary products, norms' row factors, weights and casts into fp32 go one by one") {
  const ModelConfig config = sample("llama3_8b");
  constexpr std::int64_t kTokens = 512;
  const Tape eager = eager_block_of(config, kTokens, Compile::none);
  const std::int64_t hidden = kTokens * config.hidden;
  const std::int64_t turned = kTokens * (config.heads + config.kv_heads) * config.head_dim;
  // x in fp32, x·rstd and weight·x of two norms, none of their casts into bf16; x·cos, the negated
  // half, rotated·sin and their sum.
  CHECK(places_of(eager.forward) == 6 * hidden + turned * 7 / 2);
  CHECK(places_of(eager.backward) > places_of(eager.forward));
  const Tape compiled = eager_block_of(config, kTokens, Compile::per_block);
  CHECK(places_of(compiled.forward) + places_of(compiled.backward) == 0);
}
