// Mixtures of experts.
#include <utility>

#include "core/plan/model_details.h"
#include "core/plan/model_rows.h"

namespace foregather::plan {

namespace {

using FamilyKind = ModelConfig::Family;
using Norm = ModelConfig::Norm;
using Rotary = ModelConfig::Rotary;

constexpr FamilyKeys kDeepseekKeys = {.kv_heads = {}};

}  // namespace

void add_expert_families(std::vector<Family>& rows) {
  const auto add = [&](Family row) { rows.push_back(std::move(row)); };
  ModelConfig mixtral;
  mixtral.family = FamilyKind::mixtral;
  add({"mixtral",
       "MixtralForCausalLM",
       {},
       {4096, 32, 32, 8, 0, 14336, 32000, 4096 * 32},
       mixtral,
       read_mixtral});
  ModelConfig qwen2_moe;
  qwen2_moe.qkv_bias = true;
  qwen2_moe.family = FamilyKind::qwen_moe;
  add({"qwen2_moe",
       "Qwen2MoeForCausalLM",
       {},
       {2048, 24, 16, 16, 0, 5632, 151936, 32768},
       qwen2_moe,
       read_qwen_moe});
  ModelConfig qwen3_moe;
  qwen3_moe.qk_norm = true;
  qwen3_moe.family = FamilyKind::qwen_moe;
  add({"qwen3_moe",
       "Qwen3MoeForCausalLM",
       {},
       {2048, 24, 32, 4, 0, 6144, 151936, 32768},
       qwen3_moe,
       read_qwen_moe});
  ModelConfig deepseek;
  deepseek.family = FamilyKind::deepseek;
  add({"deepseek_v2",
       "DeepseekV2ForCausalLM",
       kDeepseekKeys,
       {4096, 32, 32, 0, 0, 11008, 102400, 2048},
       deepseek,
       read_deepseek});
  add({"deepseek_v3 kimi_k2",
       "DeepseekV3ForCausalLM",
       kDeepseekKeys,
       {7168, 61, 128, 0, 0, 18432, 129280, 4096},
       deepseek,
       read_deepseek});

  ModelConfig olmoe = qwen3_moe;
  olmoe.norm_all_heads = true;
  add({"olmoe",
       "OlmoeForCausalLM",
       {},
       {2048, 16, 16, 0, 0, 2048, 50304, 4096},
       olmoe,
       read_olmoe});
  add({"glm4_moe",
       "Glm4MoeForCausalLM",
       {},
       {4096, 46, 96, 8, 0, 10944, 151552, 131072},
       mixtral,
       read_glm4_moe});
  ModelConfig minimax = mixtral;
  minimax.qk_norm = minimax.norm_all_heads = true;
  add({"minimax_m2",
       "MiniMaxM2ForCausalLM",
       {},
       {3072, 62, 48, 8, 128, 1536, 200064, 196608},
       minimax,
       read_minimax_m2});

  ModelConfig granite_moe;
  granite_moe.family = FamilyKind::granite_moe;
  granite_moe.scaled_embeddings = granite_moe.scaled_residual = granite_moe.scaled_logits = true;
  granite_moe.experts.router = {
      .of_chosen = true, .wide_choice = true, .narrow = true, .sums_to_one = false};
  add({"granitemoe",
       "GraniteMoeForCausalLM",
       {},
       {4096, 32, 32, 0, 0, 11008, 32000, 2048},
       granite_moe,
       read_granitemoe});

  ModelConfig phimoe;
  phimoe.family = FamilyKind::phimoe;
  phimoe.norm = Norm::layer;
  phimoe.norm_bias = true;
  phimoe.experts.router.mixer = true;
  add({"phimoe",
       "PhimoeForCausalLM",
       {},
       {4096, 32, 32, 8, 0, 6400, 32064, 4096 * 32},
       phimoe,
       read_phimoe});

  ModelConfig llama4;
  llama4.family = FamilyKind::llama4;
  llama4.rotary = Rotary::complex;
  llama4.experts.take_all = llama4.experts.router.of_all = true;
  add({"llama4_text",
       "Llama4ForCausalLM",
       {.intermediate = "intermediate_size_mlp"},
       {5120, 48, 40, 8, 128, 16384, 202048, 4096 * 32},
       llama4,
       read_llama4});

  ModelConfig gpt_oss;
  gpt_oss.family = FamilyKind::gpt_oss;
  gpt_oss.norm = Norm::rms_wide;
  gpt_oss.rotary = Rotary::halves;
  gpt_oss.sinks = true;
  gpt_oss.experts.biased_and_clamped = true;
  gpt_oss.experts.router = {.of_chosen = true, .narrow = true, .sums_to_one = false};
  add({"gpt_oss",
       "GptOssForCausalLM",
       {},
       {2880, 36, 64, 8, 64, 2880, 201088, 131072},
       gpt_oss,
       read_gpt_oss});
}

}  // namespace foregather::plan
