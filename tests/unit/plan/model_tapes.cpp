// Tapes against hand formulas: FLOPs, saved bytes, the copies of the loss, what is selective.
#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/places.h"
#include "tests/unit/plan/model_live_bytes.h"
#include "tests/unit/plan/temporary_file.h"

using namespace foregather;
using namespace foregather::plan;
using namespace foregather::test;

namespace {

std::int64_t flops(const std::vector<TapeOp>& ops, OpKind kind) {
  std::int64_t sum = 0;
  for (const TapeOp& op : ops)
    if (op.cost.kind == kind) sum += op.cost.flops;
  return sum;
}

Bytes bytes_of(const Tape& tape, const std::string& name) {
  for (const Value& value : tape.values)
    if (value.name == name) return value.bytes;
  FAIL("no value " + name);
  return 0;
}

std::int64_t elements_of(const Tape& tape) {
  std::int64_t sum = 0;
  for (const Parameter& parameter : tape.parameters) sum += parameter.elements;
  return sum;
}

}  // namespace

TEST_CASE("tapes are well formed for every family, attention and precision") {
  for (const char* name : {"llama3_8b", "llama2_7b", "gpt2", "tiny_llama"}) {
    for (const Attention attention : {Attention::eager, Attention::sdpa, Attention::flash}) {
      for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
        for (const bool modern : {true, false}) {
          INFO(name << " " << static_cast<int>(attention) << " " << foregather::name(dtype));
          Train train = bf16_train(2, 64);
          train.attention = attention;
          train.compute = dtype;
          Implementation implementation;
          implementation.fused_rms_norm = modern;
          implementation.repeat_kv = !modern;
          implementation.conv1d = modern;
          implementation.rotary =
              modern ? Implementation::Rotary::real : Implementation::Rotary::complex;
          const ModelConfig config = sample(name);
          const Model model = build_model(config, train, implementation);
          for (const Tape& tape : model.tapes) CHECK(malformed(tape) == "");
          CHECK(model.parameters == count_parameters(config));
          CHECK(model.modules.size() == static_cast<std::size_t>(config.layers) + 2);
        }
      }
    }
  }
}

TEST_CASE("tapes of every family are well formed and count as their config does") {
  std::ifstream file(test::source_dir() + "/tests/oracles/data/family_counts.json");
  const nlohmann::json counts = nlohmann::json::parse(file);
  for (const auto& [name, row] : counts["models"].items()) {
    const TemporaryFile json(row["config"].dump());
    const Result<ModelConfig> config = read_model_config(json.path());
    REQUIRE(config);
    for (const Attention attention : {Attention::eager, Attention::sdpa, Attention::flash}) {
      for (const DType dtype : {DType::bf16, DType::f32}) {
        INFO(name << " " << static_cast<int>(attention) << " " << foregather::name(dtype));
        Train train = bf16_train(2, config->towers.empty() ? 64 : 1024);
        train.attention = attention;
        train.compute = dtype;
        REQUIRE(check_model_size(*config, train));
        const Model model = build_model(*config, train);
        for (const Tape& tape : model.tapes) CHECK(malformed(tape) == "");
        CHECK(model.parameters == count_parameters(*config));
      }
    }
  }
}

TEST_CASE("matmul FLOPs are 2, 4 a weight and token, and half a square for flash") {
  const ModelConfig c = sample("llama3_8b");
  const Train train = bf16_train(2, 1024);
  const Model model = build_model(c, train);
  const Tape& block = model.tapes[1];
  const std::int64_t tokens = 2048;
  const std::int64_t weights = elements_of(block) - 2 * c.hidden;
  CHECK(flops(block.forward, OpKind::gemm) == 2 * weights * tokens);
  CHECK(flops(block.backward, OpKind::gemm) == 4 * weights * tokens);
  const std::int64_t square = 4 * tokens * 1024 * c.heads * c.head_dim;
  CHECK(flops(block.forward, OpKind::attention) == square / 2);
  CHECK(flops(block.backward, OpKind::attention) == square / 4 * 5);
  CHECK(flops(model.tapes[2].forward, OpKind::gemm) == 2 * tokens * c.vocab * c.hidden);
  CHECK(flops(model.tapes[2].backward, OpKind::gemm) == 4 * tokens * c.vocab * c.hidden);
  // torchtitan: 6 · parameters without the embedding, and 12 · layers · heads · head_dim · S.
  std::int64_t total = 0;
  for (const Module& module : model.modules) total += model.tapes[module.tape].model_flops;
  CHECK(total == tokens * (6 * (model.parameters - c.vocab * c.hidden) +
                           12 * c.layers * c.heads * c.head_dim * 1024));
}

TEST_CASE("model FLOPs leave out idle experts, frozen or trained") {
  const ModelConfig c = sample("mixtral_8x7b");
  const std::int64_t tokens = 2 * 128;
  const std::int64_t idle = 6 * 3 * c.hidden * c.experts.intermediate;
  const std::int64_t attention = 12 * c.heads * c.head_dim * 128;
  Train train = bf16_train(2, 128);
  const Tape all = build_model(c, train).tapes[1];
  CHECK(all.model_flops == tokens * (6 * (elements_of(all) - idle) + attention));

  train.trainable.kind = Trainable::Kind::lora;
  train.trainable.targets = {"q_proj", "v_proj"};
  const Tape lora = build_model(c, train).tapes[1];
  const std::int64_t adapters = elements_of(lora) - elements_of(all);
  // The first block's input has no gradient: of the weights that read it (and the adapters' first
  // halves) there is one product less.
  const std::int64_t heads = (c.heads + 2 * c.kv_heads) * c.head_dim;
  const std::int64_t leaves = c.hidden * (heads + 2 * train.trainable.rank);
  CHECK(lora.model_flops ==
        tokens * (6 * adapters + 4 * (elements_of(all) - idle) - 2 * leaves + attention));

  train.trainable.kind = Trainable::Kind::named;
  train.trainable.names = {"experts.down_proj"};
  const Tape down = build_model(c, train).tapes[1];
  const std::int64_t busy = 2 * c.hidden * c.experts.intermediate;
  const std::int64_t before = c.hidden * (heads + c.heads * c.head_dim + c.experts.count);
  CHECK(down.model_flops ==
        tokens * (6 * busy + 4 * (elements_of(all) - idle - busy) - 2 * before + attention));
}

TEST_CASE("what no gradient passes counts its forward alone") {
  const ModelConfig c = sample("llama3_8b");
  const std::int64_t tokens = 2 * 128;
  const std::int64_t attention = 4 * c.heads * c.head_dim * 128;
  Train train = bf16_train(2, 128);
  train.trainable.kind = Trainable::Kind::named;
  train.trainable.names = {"lm_head"};
  const Model model = build_model(c, train);
  CHECK(model.tapes[1].model_flops == tokens * (2 * elements_of(model.tapes[1]) + attention));
  CHECK(model.tapes[2].model_flops ==
        tokens * (4 * c.vocab * c.hidden + 4 * (elements_of(model.tapes[2]) - c.vocab * c.hidden)));
}

TEST_CASE("parameters are trained by parts of their names, and by what these begin with") {
  Train train = bf16_train(1, 128);
  train.trainable.kind = Trainable::Kind::named;
  const auto trained = [&](const std::string& part) {
    train.trainable.names = {part};
    std::vector<std::string> names;
    const Model model = build_model(sample("llama3_8b"), train);
    for (const Module& module : model.modules)
      for (const Parameter& parameter : model.tapes[module.tape].parameters)
        if (parameter.trainable && (module.path.empty() || !module.path.ends_with("31")))
          names.push_back(parameter.name);
    std::ranges::sort(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
  };
  using Names = std::vector<std::string>;
  CHECK(trained("norm") ==
        Names{"input_layernorm.weight", "model.norm.weight", "post_attention_layernorm.weight"});
  CHECK(trained("^model.norm") == Names{"model.norm.weight"});
  CHECK(trained("^norm").empty());
  CHECK(trained("layers.mlp.up") == Names{"mlp.up_proj.weight"});
}

TEST_CASE("what a head pools counts once a sequence") {
  const auto head_of = [](const std::string& text) {
    const TemporaryFile file(text);
    const auto config = read_model_config(file.path());
    if (!config) FAIL(config.error().text());
    const Model model = build_model(*config, bf16_train(8, 64));
    return std::pair{model.tapes.back(), *config};
  };
  const std::string sizes = R"("hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
 "intermediate_size": 128)";
  const auto [vit, vit_config] =
      head_of(R"({"architectures": ["ViTForImageClassification"], "model_type": "vit", )" + sizes +
              R"(, "image_size": 32, "patch_size": 8, "num_labels": 10})");
  CHECK(vit.model_flops == 6 * 8 * elements_of(vit));
  const auto [bert, bert_config] =
      head_of(R"({"architectures": ["BertModel"], "model_type": "bert", "vocab_size": 100, )" +
              sizes + "}");
  CHECK(bert.model_flops == 6 * 8 * elements_of(bert));
  const auto [siglip, siglip_config] =
      head_of(R"({"architectures": ["SiglipVisionModel"], "model_type": "siglip_vision_model", )" +
              sizes + R"(, "image_size": 32, "patch_size": 8})");
  const std::int64_t keys = 2 * 64 * 64;
  CHECK(siglip.model_flops == 6 * 8 * (elements_of(siglip) + keys * (16 - 1)));
}

TEST_CASE("eager attention multiplies whole squares") {
  const ModelConfig c = sample("llama3_8b");
  Train train = bf16_train(1, 512);
  train.attention = Attention::eager;
  const Tape block = build_model(c, train).tapes[1];
  const std::int64_t weights = elements_of(block) - 2 * c.hidden;
  const std::int64_t square = 4 * 512 * 512 * c.heads * c.head_dim;
  CHECK(flops(block.forward, OpKind::gemm) == 2 * weights * 512 + square);
  CHECK(flops(block.backward, OpKind::gemm) == 4 * weights * 512 + 2 * square);
}

TEST_CASE("a Llama block with flash attention saves what the formula says") {
  const ModelConfig c = sample("llama3_8b");
  const Train train = bf16_train(1, 8192);
  const Tape block = build_model(c, train).tapes[1];
  const SavedValues saved = saved_values(block, SavePolicy::none);
  const Bytes n = 8192;
  const Bytes queries = c.heads * c.head_dim;
  const Bytes keys = c.kv_heads * c.head_dim;
  const Bytes expected = 2 * (4 * n)               // reciprocal roots of both norms
                         + 3 * (2 * n * c.hidden)  // both norms' outputs, the residual between
                         + 2 * n * (queries + 2 * keys)  // query, key, value
                         + 2 * n * queries + 4 * n * c.heads +
                         24                               // output, logsumexp, random state
                         + 4 * (2 * n * c.intermediate);  // gate, silu, up, product
  CHECK(saved.saved_bytes == expected);
  CHECK(saved.saved[block.input]);
  CHECK(saved.recompute.empty());
  // The residual stream's gradient is one buffer.
  CHECK(storage_of(block, block.input_grad) == block.output_grad);
}

// LitGPT's Llama-2-7B of 2024: torch.autograd.graph.saved_tensors_hooks counts 96 MiB for the value
// of one layer at 4096 tokens, the whole product.
TEST_CASE("of one product for query, key and value the saved value keeps all") {
  ModelConfig c = sample("llama2_7b");
  const Train train = bf16_train(1, 4096);
  const auto saved_by_block = [&] {
    return saved_values(build_model(c, train).tapes[1], SavePolicy::none).saved_bytes;
  };
  const std::int64_t parameters = count_parameters(c);
  const Bytes separate = saved_by_block();
  c.fused_qkv = true;
  // And attention by heads, as the query is, beside its copy by tokens.
  CHECK(saved_by_block() - separate == 3 * 2 * 4096 * c.hidden);
  CHECK(count_parameters(c) == parameters);
}

TEST_CASE("Llama and GPT-NeoX of one product copy what attention makes by heads") {
  using Family = ModelConfig::Family;
  ModelConfig c = sample("llama2_7b");
  const auto copies = [&](Family family, bool fused) {
    c.family = family;
    c.fused_qkv = fused;
    const Tape tape = build_model(c, bf16_train(1, 1024)).tapes[1];
    return std::any_of(tape.values.begin(), tape.values.end(),
                       [](const Value& value) { return value.name == "attention by token"; });
  };
  CHECK(copies(Family::llama, true));
  CHECK(copies(Family::gpt_neox, true));
  CHECK_FALSE(copies(Family::llama, false));
  CHECK_FALSE(copies(Family::mpt, true));
}

TEST_CASE("without FlashAttention sdpa is memory-efficient attention over copied heads") {
  const ModelConfig c = sample("llama3_8b");
  Implementation implementation;
  const auto block = [&](bool flash) {
    implementation.flash_attention = flash;
    return build_model(c, bf16_train(1, 1024), implementation).tapes[1];
  };
  const auto has = [](const Tape& tape, std::string_view name) {
    return std::any_of(tape.values.begin(), tape.values.end(),
                       [&](const Value& value) { return value.name == name; });
  };
  CHECK(has(block(true), "dq_accum"));
  CHECK_FALSE(has(block(false), "dq_accum"));
  CHECK(bytes_of(block(false), "delta") == 4 * 1024 * c.heads);
  CHECK(bytes_of(block(false), "value repeated") == 2 * 1024 * c.heads * c.head_dim);
}

TEST_CASE("a GPT-2 block saves a mask of one byte where dropout runs") {
  const ModelConfig c = sample("gpt2");
  Train train = bf16_train(2, 1024);
  const Bytes n = 2048;
  const auto saved = [&] {
    return saved_values(build_model(c, train).tapes[1], SavePolicy::none).saved_bytes;
  };
  const Bytes with = saved();
  train.dropout = false;
  const Bytes without = saved();
  CHECK(with - without == 2 * n * c.hidden);
  // Norms: output and two statistics; fused query, key, value; attention; residual; gelu's four and
  // its output.
  const Bytes h = c.hidden;
  CHECK(without == 2 * (2 * n * h + 8 * n) + 2 * n * 3 * h + 2 * n * h + 4 * n * c.heads + 24 +
                       2 * n * h + 5 * (2 * n * 4 * h));
}

TEST_CASE("the loss holds logits in bf16, in fp32 and as log probabilities") {
  const ModelConfig c = sample("llama3_8b");
  const Tape head = build_model(c, bf16_train(1, 8192)).tapes[2];
  const Bytes logits = 8192 * c.vocab;
  CHECK(bytes_of(head, "logits") == 2 * logits);
  CHECK(bytes_of(head, "logits fp32") == 4 * logits);
  CHECK(bytes_of(head, "log probabilities") == 4 * logits);
  const LiveBytes live = live_bytes(head, SavePolicy::none);
  // Forward: 2 + 4 + 4 bytes a logit. Backward: saved 4, two gradients of 4.
  CHECK(live.forward_peak > 10 * logits);
  CHECK(live.forward_peak < 10 * logits + 2 * 8192 * c.hidden + (1 << 20));
  CHECK(live.backward_peak > 12 * logits);
  CHECK(live.backward_peak < 12 * logits + 2 * 8192 * c.hidden + (1 << 20));
  CHECK(saved_values(head, SavePolicy::none).saved_bytes <
        4 * logits + 2 * 8192 * c.hidden + (1 << 20));
}

TEST_CASE("in fp32 nothing is cast") {
  Train train = bf16_train(1, 128);
  train.compute = DType::f32;
  for (const Tape& tape : build_model(sample("tiny_llama"), train).tapes)
    for (const auto* ops : {&tape.forward, &tape.backward})
      for (const TapeOp& op : *ops) CHECK(op.cost.kind != OpKind::cast);
}

TEST_CASE("the embedding's gradient is a dense table, sorted for long batches") {
  const ModelConfig c = sample("llama3_8b");
  const Tape small = build_model(c, bf16_train(1, 3072)).tapes[0];
  const Tape large = build_model(c, bf16_train(1, 3073)).tapes[0];
  CHECK_FALSE(small.has_input_grad);
  const Bytes table = 2 * c.vocab * c.hidden;
  CHECK(bytes_of(small, "grad embed_tokens.weight") == table);
  CHECK(live_bytes(small, SavePolicy::none).after_backward >= table);
  CHECK(live_bytes(small, SavePolicy::none).backward_peak <
        table + 3072 * c.hidden * 2 + (4 << 20));
  CHECK(bytes_of(large, "partial sums of rows") == 4 * 3073 * c.hidden);
}

TEST_CASE("tied embeddings are one storage of the model") {
  const Model model = build_model(sample("gpt2"), bf16_train(1, 64));
  CHECK(model.tapes[0].parameters[0].tie == "embedding");
  CHECK(model.tapes[2].parameters.back().tie == "embedding");
  CHECK(model.parameters == 124'439'808);
  CHECK(build_model(sample("llama2_7b"), bf16_train(1, 64)).tapes[0].parameters[0].tie.empty());
}

TEST_CASE("ops and scopes carry the framework's names, and equal input gives equal tapes") {
  const ModelConfig c = sample("tiny_llama");
  const Model model = build_model(c, bf16_train(2, 32));
  CHECK(model.modules[0].path == "model");
  CHECK(model.modules[1].path == "model.layers.0");
  CHECK(model.modules[1].is_block);
  CHECK(model.modules.back().path.empty());
  CHECK(model.tokens == 64);
  const Tape& block = model.tapes[1];
  CHECK(block.parameters.front().name == "self_attn.q_proj.weight");
  CHECK(std::count(block.scopes.begin(), block.scopes.end(), "self_attn") == 1);
  const Model again = build_model(c, bf16_train(2, 32));
  REQUIRE(again.tapes[1].backward.size() == block.backward.size());
  for (std::size_t i = 0; i < block.backward.size(); ++i) {
    CHECK(again.tapes[1].backward[i].cost == block.backward[i].cost);
    CHECK(again.tapes[1].backward[i].reads == block.backward[i].reads);
  }
}

TEST_CASE("a compiled Llama block saves what cannot be recomputed") {
  const ModelConfig c = sample("llama3_8b");
  Train train = bf16_train(1, 8192);
  const Tape eager = build_model(c, train).tapes[1];
  train.compile = Compile::per_block;
  const Model model = build_model(c, train);
  const Tape& block = model.tapes[1];
  const Bytes n = 8192;
  const Bytes queries = c.heads * c.head_dim;
  const Bytes keys = c.kv_heads * c.head_dim;
  // The norms' outputs and the product are read by matmuls of the backward; not silu(gate). Checked
  // against the partitioner of torch 2.15 on a block of this kind.
  const Bytes expected = 2 * (4 * n) + 3 * (2 * n * c.hidden) + 2 * n * (2 * queries + 2 * keys) +
                         4 * n * c.heads + 24 + 3 * (2 * n * c.intermediate);
  CHECK(saved_values(block, SavePolicy::none).saved_bytes == expected);
  for (const OpKind kind : {OpKind::gemm, OpKind::attention}) {
    CHECK(flops(block.forward, kind) == flops(eager.forward, kind));
    CHECK(flops(block.backward, kind) == flops(eager.backward, kind));
  }
  const auto kernels = [](const std::vector<TapeOp>& ops) {
    int count = 0;
    for (const TapeOp& op : ops) count += op.cost.kernels;
    return count;
  };
  // Forward: 7 matmuls, attention; norm, rotary, residual with norm, silu·up, residual.
  CHECK(kernels(block.forward) == 8 + 5);
  CHECK(kernels(eager.forward) == 8 + 2 + 2 * 5 + 2 + 2);
  CHECK(kernels(eager.backward) > kernels(block.backward) * 3 / 2);
  // Ends are as they were.
  CHECK(kernels(model.tapes[2].forward) ==
        kernels(build_model(c, bf16_train(1, 8192)).tapes[2].forward));
}

TEST_CASE("a wholly compiled head keeps the logits, not their log probabilities") {
  const ModelConfig c = sample("llama3_8b");
  Train train = bf16_train(1, 8192);
  train.compile = Compile::full;
  const Tape head = build_model(c, train).tapes[2];
  const Bytes logits = 2 * 8192 * c.vocab;
  const LiveBytes live = live_bytes(head, SavePolicy::none);
  CHECK(live.forward_peak < logits + 100'000'000);
  CHECK(live.backward_peak < 2 * logits + 200'000'000);
}

TEST_CASE("compiled tapes of every family read only what is made") {
  std::ifstream file(test::source_dir() + "/tests/oracles/data/family_counts.json");
  const nlohmann::json counts = nlohmann::json::parse(file);
  for (const auto& [name, row] : counts["models"].items()) {
    const TemporaryFile json(row["config"].dump());
    const Result<ModelConfig> config = read_model_config(json.path());
    REQUIRE(config);
    for (const Attention attention : {Attention::eager, Attention::sdpa}) {
      INFO(name << " " << static_cast<int>(attention));
      Train train = bf16_train(2, config->towers.empty() ? 64 : 1024);
      train.attention = attention;
      const Model eager = build_model(*config, train);
      train.compile = Compile::full;
      const Model model = build_model(*config, train);
      for (std::size_t i = 0; i < model.tapes.size(); ++i) {
        const Tape& tape = model.tapes[i];
        std::set<ValueIndex> made = {tape.input, tape.output_grad};
        for (ValueIndex v = 0; v < tape.values.size(); ++v)
          if (tape.values[v].kind == ValueKind::parameter) made.insert(v);
        bool is_sound = true;
        for (const auto* ops : {&tape.forward, &tape.backward})
          for (const TapeOp& op : *ops) {
            for (const auto* list : {&op.reads, &op.updates})
              for (const ValueIndex value : *list)
                is_sound = is_sound && made.contains(storage_of(tape, value));
            for (const ValueIndex value : op.writes) made.insert(storage_of(tape, value));
          }
        CHECK(is_sound);
        CHECK(made.contains(storage_of(tape, tape.output)));
        for (std::size_t p = 0; p < tape.parameters.size(); ++p) {
          bool has_gradient = false;
          for (const ValueIndex value : made)
            has_gradient = has_gradient || (tape.values[value].kind == ValueKind::parameter_grad &&
                                            tape.values[value].parameter == p);
          CHECK(has_gradient == tape.parameters[p].trainable);
        }
        CHECK(saved_values(tape, SavePolicy::none).saved_bytes <=
              saved_values(eager.tapes[i], SavePolicy::none).saved_bytes);
        CHECK(live_bytes(tape, SavePolicy::none).after_backward >= 0);
      }
    }
  }
}

TEST_CASE("under autocast the residual stream is fp32 and each linear saves a cast of its own") {
  const ModelConfig c = sample("llama3_8b");
  Train train = bf16_train(1, 256);
  const Tape plain = build_model(c, train).tapes[1];
  train.autocast = true;
  const Model model = build_model(c, train);
  const Tape& block = model.tapes[1];
  CHECK(block.values[block.input].dtype == DType::f32);
  CHECK(block.values[block.output].dtype == DType::f32);
  CHECK(block.values[block.input_grad].dtype == DType::f32);
  // Three casts for one norm's output, two for the other's; the middle of the stream is twice as
  // wide.
  const Bytes row = Bytes{2} * 256 * c.hidden;
  CHECK(saved_values(block, SavePolicy::none).saved_bytes ==
        saved_values(plain, SavePolicy::none).saved_bytes + (3 - 1) * row + (2 - 1) * row + row);
  for (const OpKind kind : {OpKind::gemm, OpKind::attention}) {
    CHECK(flops(block.forward, kind) == flops(plain.forward, kind));
    CHECK(flops(block.backward, kind) == flops(plain.backward, kind));
  }
  for (const TapeOp& op : block.forward)
    if (op.cost.kind == OpKind::gemm) CHECK(op.cost.dtype == DType::bf16);
  const Tape& head = model.tapes[2];
  CHECK(head.values[head.input].dtype == DType::f32);
}

TEST_CASE(
    "autocast widens what a power is of: GPT-2's activation saves 16 bytes an element for 10") {
  ModelConfig c = sample("gpt2");
  const auto saved = [&](bool autocast, ModelConfig::Activation activation) {
    c.activation = activation;
    c.fused_gelu = activation != ModelConfig::Activation::gelu_new;
    Train train = bf16_train(1, 256);
    train.autocast = autocast;
    return saved_values(build_model(c, train).tapes[1], SavePolicy::none).saved_bytes;
  };
  using enum ModelConfig::Activation;
  const Bytes elements = Bytes{256} * 4 * c.hidden;
  // Beside the input and the output in bf16, which the fused kernel and the product save, too.
  CHECK(saved(false, gelu_new) - saved(false, gelu) == elements * (2 + 2 + 2));
  CHECK(saved(true, gelu_new) - saved(true, gelu) == elements * (4 + 4 + 4 + 2 - 2));
}
