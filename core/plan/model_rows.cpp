#include "core/plan/model_rows.h"

#include <utility>

#include "core/plan/model_composites.h"
#include "core/plan/model_details.h"

namespace foregather::plan {

namespace {

using FamilyKind = ModelConfig::Family;
using Norm = ModelConfig::Norm;
using Activation = ModelConfig::Activation;
using Mlp = ModelConfig::Mlp;
using Positions = ModelConfig::Positions;
using Residual = ModelConfig::Residual;
using Rotary = ModelConfig::Rotary;
using Head = ModelConfig::Head;

constexpr FamilyKeys kGpt2Keys = {.hidden = "n_embd hidden_size",
                                  .layers = "n_layer num_hidden_layers",
                                  .heads = "n_head num_attention_heads",
                                  .kv_heads = {},
                                  .intermediate = "n_inner",
                                  .positions = "n_positions max_position_embeddings",
                                  .activation = "activation_function",
                                  .attention_dropout = "attn_pdrop",
                                  .residual_dropout = "resid_pdrop",
                                  .embedding_dropout = "embd_pdrop"};
constexpr FamilyKeys kNeoxKeys = {.kv_heads = {}, .residual_dropout = "hidden_dropout"};
constexpr FamilyKeys kFalconKeys = {.hidden = "hidden_size n_embed",
                                    .layers = "num_hidden_layers n_layer",
                                    .heads = "num_attention_heads n_head",
                                    .kv_heads = {},
                                    .intermediate = "ffn_hidden_size",
                                    .activation = "activation",
                                    .residual_dropout = "hidden_dropout"};
constexpr FamilyKeys kMptKeys = {.hidden = "d_model hidden_size",
                                 .layers = "n_layers num_hidden_layers",
                                 .heads = "n_heads num_attention_heads",
                                 .kv_heads = {},
                                 .intermediate = "intermediate_size",
                                 .positions = "max_seq_len max_position_embeddings",
                                 .activation = {},
                                 .attention_dropout = "attn_pdrop",
                                 .residual_dropout = "resid_pdrop",
                                 .embedding_dropout = "emb_pdrop"};
constexpr FamilyKeys kBloomKeys = {.hidden = "hidden_size n_embed",
                                   .layers = "n_layer num_hidden_layers",
                                   .heads = "n_head num_attention_heads",
                                   .kv_heads = {},
                                   .intermediate = {},
                                   .positions = "seq_length",
                                   .activation = {},
                                   .residual_dropout = "hidden_dropout"};
constexpr FamilyKeys kBertKeys = {.kv_heads = {},
                                  .attention_dropout = "attention_probs_dropout_prob",
                                  .residual_dropout = "hidden_dropout_prob",
                                  .embedding_dropout = "hidden_dropout_prob"};
constexpr FamilyKeys kVitKeys = {.kv_heads = {},
                                 .vocab = {},
                                 .positions = {},
                                 .attention_dropout = "attention_probs_dropout_prob",
                                 .residual_dropout = "hidden_dropout_prob"};
constexpr FamilyKeys kClipKeys = {.kv_heads = {}, .vocab = {}, .positions = {}};
constexpr FamilyKeys kPhiKeys = {.residual_dropout = "resid_pdrop",
                                 .embedding_dropout = "embd_pdrop"};
constexpr FamilyKeys kPhi3Keys = {.residual_dropout = "resid_pdrop"};  // embd_pdrop has no effect
constexpr FamilyKeys kStableLmKeys = {.residual_dropout = "hidden_dropout"};
constexpr FamilyKeys kStarcoder2Keys = {.residual_dropout = "residual_dropout",
                                        .embedding_dropout = "embedding_dropout"};
constexpr FamilyKeys kOptKeys = {.kv_heads = {},
                                 .intermediate = "ffn_dim",
                                 .activation = "activation_function",
                                 .residual_dropout = "dropout"};

ModelConfig encoder(FamilyKind kind, Activation activation) {
  ModelConfig c;
  c.family = kind;
  c.norm = Norm::layer;
  c.norm_bias = c.qkv_bias = c.output_bias = c.mlp_bias = true;
  c.activation = activation;
  c.mlp = Mlp::plain;
  c.positions = Positions::learned;
  c.causal = false;
  return c;
}

ModelConfig bert(FamilyKind kind) {
  ModelConfig c = encoder(kind, Activation::gelu);
  c.residual = Residual::post_norm;
  c.tied_embeddings = true;
  c.head = Head::masked_language_model;
  c.head_bias = true;
  c.token_types = 2;
  return c;
}

ModelConfig vision(FamilyKind kind, Activation activation, Head head) {
  ModelConfig c = encoder(kind, activation);
  c.head = head;
  c.image = {.size = 224, .patch = 16, .prefix = 1};
  return c;
}

ModelConfig gemma(bool sandwich, bool qk_norm) {
  ModelConfig c;
  c.family = FamilyKind::gemma;
  c.norm = Norm::rms_offset;
  c.activation = Activation::gelu;
  c.tied_embeddings = c.scaled_embeddings = true;
  c.sandwich_norms = sandwich;
  c.qk_norm = qk_norm;
  return c;
}

}  // namespace

std::vector<Family> make_families() {
  std::vector<Family> rows;
  const auto add = [&](Family row) { rows.push_back(std::move(row)); };

  // Llama and its kin.
  add({"llama", "LlamaForCausalLM", {}, {4096, 32, 32, 0, 0, 11008, 32000, 2048}, {}, read_llama});
  add({"mistral", "MistralForCausalLM", {}, {4096, 32, 32, 8, 0, 14336, 32000, 4096 * 32}, {}});
  add({"ministral",
       "MinistralForCausalLM",
       {},
       {4096, 32, 32, 8, 0, 14336, 32000, 4096 * 32},
       {},
       read_ministral});
  ModelConfig ministral3;
  ministral3.scaled_queries = true;
  add({"ministral3",
       "Ministral3ForCausalLM",
       {},
       {4096, 34, 32, 8, 128, 14336, 131072, 262144},
       ministral3,
       read_ministral3});
  ModelConfig qwen2;
  qwen2.qkv_bias = true;
  add({"qwen2", "Qwen2ForCausalLM", {}, {4096, 32, 32, 32, 0, 22016, 151936, 32768}, qwen2});
  ModelConfig qwen3;
  qwen3.qk_norm = true;
  add({"qwen3",
       "Qwen3ForCausalLM",
       {},
       {4096, 32, 32, 32, 128, 22016, 151936, 32768},
       qwen3,
       read_attention_bias});
  add({"qwen2_vl_text qwen2_5_vl_text",
       "Qwen2VLTextModel Qwen2_5_VLTextModel",
       {},
       {8192, 80, 64, 8, 0, 29568, 152064, 32768},
       qwen2});
  add({"qwen3_vl_text",
       "Qwen3VLTextModel",
       {},
       {4096, 32, 32, 32, 128, 22016, 151936, 128000},
       qwen3,
       read_attention_bias});

  ModelConfig gpt2 = encoder(FamilyKind::gpt2, Activation::gelu_new);
  gpt2.causal = gpt2.tied_embeddings = true;
  add({"gpt2",
       "GPT2LMHeadModel",
       kGpt2Keys,
       {768, 12, 12, 0, 0, 0, 50257, 1024, 4, "gelu_new", 0.1},
       gpt2,
       read_gpt2});

  // Llamas with norms, numbers or positions of their own.
  ModelConfig olmo;
  olmo.norm = Norm::layer_bare;
  olmo.rotary = Rotary::wide_tables;
  ModelConfig olmo2;
  olmo2.norm = Norm::rms_wide;
  olmo2.residual = Residual::output_norm;
  olmo2.rotary = Rotary::wide_tables;
  olmo2.qk_norm = olmo2.norm_all_heads = true;
  constexpr FamilyDefaults kOlmo = {4096, 32, 32, 0, 0, 11008, 50304, 2048};
  add({"olmo", "OlmoForCausalLM", {}, kOlmo, olmo, read_attention_bias});
  add({"olmo2", "Olmo2ForCausalLM", {}, kOlmo, olmo2, read_attention_bias});
  add({"olmo3", "Olmo3ForCausalLM", {}, kOlmo, olmo2, read_attention_bias});
  ModelConfig exaone4;
  exaone4.residual = Residual::output_norm;
  exaone4.qk_norm = true;
  add({"exaone4",
       "Exaone4ForCausalLM",
       {},
       {4096, 32, 32, 32, 0, 16384, 102400, 2048},
       exaone4,
       read_exaone4});
  FamilyKeys ernie;
  ernie.attention_dropout = {};  // the config's has no effect
  ModelConfig ernie4_5;
  ernie4_5.rotary = Rotary::wide_spread;
  ernie4_5.tied_embeddings = true;
  add({"ernie4_5",
       "Ernie4_5ForCausalLM",
       ernie,
       {1024, 18, 16, 2, 128, 3072, 103424, 131072},
       ernie4_5,
       read_ernie4_5});
  ModelConfig arcee;
  arcee.mlp = Mlp::plain;
  add({"arcee",
       "ArceeForCausalLM",
       {},
       {2560, 32, 32, 0, 0, 18432, 32000, 4096, 0, "relu2"},
       arcee,
       read_arcee});
  ModelConfig nemotron = arcee;
  nemotron.norm = Norm::layer_offset;
  nemotron.norm_bias = true;
  add({"nemotron",
       "NemotronForCausalLM",
       {},
       {6144, 32, 48, 0, 0, 24576, 256000, 4096, 0, "relu2"},
       nemotron,
       read_nemotron});
  ModelConfig granite;
  granite.scaled_embeddings = granite.scaled_residual = granite.scaled_logits = true;
  add({"granite",
       "GraniteForCausalLM",
       {},
       {4096, 32, 32, 0, 0, 11008, 32000, 2048},
       granite,
       read_granite});
  ModelConfig smollm3;
  smollm3.tied_embeddings = true;
  add({"smollm3",
       "SmolLM3ForCausalLM",
       {},
       {2048, 36, 16, 4, 0, 11008, 128256, 32768},
       smollm3,
       read_smollm3});
  ModelConfig glm;
  glm.family = FamilyKind::glm4;
  glm.mlp = Mlp::gated_fused;
  glm.rotary = Rotary::spread_tables;
  constexpr FamilyDefaults kGlm = {4096, 40, 32, 2, 128, 13696, 151552, 131072};
  add({"glm", "GlmForCausalLM", {}, kGlm, glm, read_glm});
  ModelConfig glm4 = glm;
  glm4.sandwich_norms = true;
  add({"glm4", "Glm4ForCausalLM", {}, kGlm, glm4, read_glm});
  ModelConfig cohere;
  cohere.norm = Norm::layer_wide;
  cohere.residual = Residual::parallel;
  cohere.rotary = Rotary::wide;
  cohere.tied_embeddings = cohere.scaled_logits = true;
  constexpr FamilyDefaults kCohere = {8192, 40, 64, 0, 0, 22528, 256000, 8192};
  add({"cohere", "CohereForCausalLM", {}, kCohere, cohere, read_cohere});
  add({"cohere2", "Cohere2ForCausalLM", {}, kCohere, cohere, read_cohere2});

  FamilyKeys seed_oss;
  seed_oss.residual_dropout = "residual_dropout";
  add({"seed_oss",
       "SeedOssForCausalLM",
       seed_oss,
       {4096, 64, 80, 8, 128, 27648, 155136, 524288, 0, "silu", 0.1},
       {},
       read_seed_oss});

  // Gemma.
  constexpr FamilyDefaults kGemma = {3072,  28,     16,   16, 256,
                                     24576, 256000, 8192, 0,  "gelu_pytorch_tanh"};
  FamilyKeys gemma_keys;
  gemma_keys.activation = "hidden_activation hidden_act";
  add({"gemma", "GemmaForCausalLM", gemma_keys, kGemma, gemma(false, false), read_attention_bias});
  ModelConfig gemma2 = gemma(true, false);
  gemma2.has_sdpa = false;  // for its soft caps
  add({"gemma2",
       "Gemma2ForCausalLM",
       gemma_keys,
       {2304, 26, 8, 4, 256, 9216, 256000, 8192, 0, "gelu_pytorch_tanh"},
       gemma2,
       read_gemma});
  add({"gemma3_text",
       "Gemma3ForCausalLM",
       gemma_keys,
       {2304, 26, 8, 4, 256, 9216, 262208, 131072, 0, "gelu_pytorch_tanh"},
       gemma(true, true),
       read_gemma});

  // GPT-NeoX, Falcon, MPT: fused query, key and value; a plain mlp.
  ModelConfig neox = encoder(FamilyKind::gpt_neox, Activation::gelu);
  neox.causal = neox.fused_qkv = true;
  neox.positions = Positions::rotary;
  add({"gpt_neox",
       "GPTNeoXForCausalLM",
       kNeoxKeys,
       {6144, 44, 64, 0, 0, 24576, 50432, 2048, 0, "gelu"},
       neox,
       read_gpt_neox});
  ModelConfig falcon = neox;
  falcon.family = FamilyKind::falcon;
  falcon.tied_embeddings = true;
  add({"falcon RefinedWeb RefinedWebModel",
       "FalconForCausalLM RWForCausalLM",
       kFalconKeys,
       {4544, 32, 71, 0, 0, 0, 65024, 2048, 4, "gelu"},
       falcon,
       read_falcon});
  ModelConfig mpt = falcon;
  mpt.family = FamilyKind::mpt;
  add({"mpt",
       "MptForCausalLM MPTForCausalLM",
       kMptKeys,
       {2048, 24, 16, 0, 0, 0, 50368, 2048, 4, "gelu"},
       mpt,
       read_mpt});
  ModelConfig bloom = neox;
  bloom.family = FamilyKind::bloom;
  bloom.positions = Positions::alibi;
  bloom.activation = Activation::bloom_gelu;
  bloom.tied_embeddings = bloom.normed_embeddings = true;
  bloom.has_sdpa = false;
  add({"bloom",
       "BloomForCausalLM",
       kBloomKeys,
       {64, 2, 8, 0, 0, 0, 250880, 2048, 4},
       bloom,
       read_bloom});

  // A plain mlp of separate query, key and value.
  ModelConfig starcoder2 = encoder(FamilyKind::starcoder2, Activation::gelu);
  starcoder2.causal = starcoder2.tied_embeddings = true;
  starcoder2.positions = Positions::rotary;
  add({"starcoder2",
       "Starcoder2ForCausalLM",
       kStarcoder2Keys,
       {3072, 30, 24, 2, 0, 12288, 49152, 4096, 0, "gelu_pytorch_tanh"},
       starcoder2,
       read_starcoder2});
  ModelConfig phi = encoder(FamilyKind::phi, Activation::gelu_new);
  phi.causal = phi.head_bias = true;
  phi.positions = Positions::rotary;
  phi.residual = Residual::parallel;
  add({"phi",
       "PhiForCausalLM",
       kPhiKeys,
       {2048, 24, 32, 0, 0, 8192, 51200, 2048, 0, "gelu_new"},
       phi,
       read_phi});
  ModelConfig opt = encoder(FamilyKind::opt, Activation::relu);
  opt.causal = opt.tied_embeddings = true;
  add({"opt",
       "OPTForCausalLM",
       kOptKeys,
       {768, 12, 12, 0, 0, 3072, 50272, 2048, 0, "relu", 0.1},
       opt,
       read_opt});

  ModelConfig stablelm;
  stablelm.family = FamilyKind::stablelm;
  stablelm.norm = Norm::layer;
  stablelm.norm_bias = true;
  add({"stablelm stablelm_epoch",
       "StableLmForCausalLM StableLMEpochForCausalLM",
       kStableLmKeys,
       {2560, 32, 32, 32, 0, 6912, 50304, 4096},
       stablelm,
       read_stablelm});
  ModelConfig phi3;
  phi3.family = FamilyKind::phi3;
  phi3.fused_qkv = true;
  phi3.mlp = Mlp::gated_fused;
  add({"phi3",
       "Phi3ForCausalLM",
       kPhi3Keys,
       {3072, 32, 32, 0, 0, 8192, 32064, 4096},
       phi3,
       read_phi3});

  add_expert_families(rows);

  // Encoders.
  add({"bert",
       "BertForMaskedLM BertForPreTraining BertModel",
       kBertKeys,
       {768, 12, 12, 0, 0, 3072, 30522, 512, 0, "gelu", 0.1},
       bert(FamilyKind::bert),
       read_bert});
  add({"roberta xlm-roberta",
       "RobertaForMaskedLM RobertaModel XLMRobertaForMaskedLM",
       kBertKeys,
       {768, 12, 12, 0, 0, 3072, 50265, 512, 0, "gelu", 0.1},
       bert(FamilyKind::roberta),
       read_bert});
  constexpr FamilyDefaults kVit = {768, 12, 12, 0, 0, 3072, 0, 0, 0, "gelu"};
  add({"vit", "ViTModel ViTForImageClassification", kVitKeys, kVit,
       vision(FamilyKind::vit, Activation::gelu, Head::pooler), read_vit});
  ModelConfig dinov2 = vision(FamilyKind::dinov2, Activation::gelu, Head::features);
  dinov2.layer_scale = dinov2.image.mask_token = true;
  dinov2.image.patch = 14;
  add({"dinov2 dinov2_with_registers",
       "Dinov2Model Dinov2ForImageClassification Dinov2WithRegistersModel",
       kVitKeys,
       {768, 12, 12, 0, 0, 0, 0, 0, 4, "gelu"},
       dinov2,
       read_dinov2});
  ModelConfig siglip = vision(FamilyKind::siglip, Activation::gelu, Head::attention_pool);
  siglip.image.prefix = 0;
  add({"siglip_vision_model",
       "SiglipVisionModel",
       kClipKeys,
       {768, 12, 12, 0, 0, 3072, 0, 0, 0, "gelu_pytorch_tanh"},
       siglip,
       read_siglip});
  ModelConfig clip = vision(FamilyKind::clip, Activation::quick_gelu, Head::features);
  clip.image.patch = 32;
  clip.image.patch_bias = false;
  clip.image.pre_norm = true;
  add({"clip_vision_model",
       "CLIPVisionModel",
       kClipKeys,
       {768, 12, 12, 0, 0, 3072, 0, 0, 0, "quick_gelu"},
       clip,
       read_clip});

  // Several towers.
  add({"llava", "LlavaForConditionalGeneration", {}, {}, {}, nullptr, compose_llava});
  add({"gemma3", "Gemma3ForConditionalGeneration", {}, {}, {}, nullptr, compose_text});
  add({"mistral3", "Mistral3ForConditionalGeneration", {}, {}, {}, nullptr, compose_text});
  add({"llama4", "Llama4ForConditionalGeneration", {}, {}, {}, nullptr, compose_text});
  add({"qwen2_vl", "Qwen2VLForConditionalGeneration", {}, {}, {}, nullptr, compose_qwen_vl});
  add({"qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", {}, {}, {}, nullptr, compose_qwen_vl});
  add({"qwen3_vl", "Qwen3VLForConditionalGeneration", {}, {}, {}, nullptr, compose_text});
  add({"openvla prismatic",
       "OpenVLAForActionPrediction PrismaticForConditionalGeneration",
       {},
       {},
       {},
       nullptr,
       compose_openvla});
  return rows;
}

}  // namespace foregather::plan
