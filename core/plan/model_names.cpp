#include "core/plan/model_names.h"

namespace foregather::plan {

namespace {

constexpr ModelNames kLlama;

constexpr ModelNames kNeox = {.root = "gpt_neox",
                              .embedding = "embed_in",
                              .attention = "attention",
                              .fused = "attention.query_key_value",
                              .out = "attention.dense",
                              .up = "mlp.dense_h_to_4h",
                              .down = "mlp.dense_4h_to_h",
                              .final_norm = "final_layer_norm",
                              .head = "embed_out",
                              .norms_first = true};

constexpr ModelNames kFalcon = {.root = "transformer",
                                .blocks = "h",
                                .embedding = "word_embeddings",
                                .attention = "self_attention",
                                .fused = "self_attention.query_key_value",
                                .out = "self_attention.dense",
                                .up = "mlp.dense_h_to_4h",
                                .down = "mlp.dense_4h_to_h",
                                .final_norm = "ln_f"};

constexpr ModelNames bloom() {
  ModelNames names = kFalcon;
  names.norms_first = true;
  return names;
}
constexpr ModelNames kBloom = bloom();

constexpr ModelNames kMpt = {.root = "transformer",
                             .blocks = "blocks",
                             .embedding = "wte",
                             .positions = "wpe",
                             .attention = "attn",
                             .mlp = "ffn",
                             .fused = "attn.Wqkv",
                             .out = "attn.out_proj",
                             .up = "ffn.up_proj",
                             .down = "ffn.down_proj",
                             .first_norm = "norm_1",
                             .second_norm = "norm_2",
                             .final_norm = "norm_f",
                             .norms_first = true};

constexpr ModelNames bert_names(std::string_view root) {
  return {.root = root,
          .blocks = "encoder.layer",
          .embedding = "embeddings.word_embeddings",
          .positions = "embeddings.position_embeddings",
          .attention = "attention",
          .mlp = "output",
          .query = "attention.self.query",
          .key = "attention.self.key",
          .value = "attention.self.value",
          .out = "attention.output.dense",
          .up = "intermediate.dense",
          .down = "output.dense",
          .first_norm = "attention.output.LayerNorm",
          .second_norm = "output.LayerNorm"};
}
constexpr ModelNames kBert = bert_names("bert");
constexpr ModelNames kRoberta = bert_names("roberta");

constexpr ModelNames vit_names(std::string_view root, std::string_view final_norm) {
  return {.root = root,
          .blocks = "encoder.layer",
          .positions = "embeddings.position_embeddings",
          .attention = "attention",
          .query = "attention.attention.query",
          .key = "attention.attention.key",
          .value = "attention.attention.value",
          .out = "attention.output.dense",
          .gate_up = "mlp.weights_in",
          .up = "mlp.fc1",
          .down = "mlp.fc2",
          .first_norm = "norm1",
          .second_norm = "norm2",
          .final_norm = final_norm,
          .norms_first = true};
}
constexpr ModelNames kVit = vit_names("vit", "layernorm");
constexpr ModelNames kDinov2 = vit_names("dinov2", "layernorm");

constexpr ModelNames kSiglip = {.root = "vision_model",
                                .blocks = "encoder.layers",
                                .positions = "embeddings.position_embedding",
                                .out = "self_attn.out_proj",
                                .up = "mlp.fc1",
                                .down = "mlp.fc2",
                                .first_norm = "layer_norm1",
                                .second_norm = "layer_norm2",
                                .final_norm = "post_layernorm",
                                .norms_first = true};

constexpr ModelNames stablelm() {
  ModelNames names;
  names.query_norm = "self_attn.q_layernorm";
  names.key_norm = "self_attn.k_layernorm";
  return names;
}
constexpr ModelNames kStableLm = stablelm();

constexpr ModelNames starcoder2() {
  ModelNames names;
  names.up = "mlp.c_fc";
  names.down = "mlp.c_proj";
  return names;
}
constexpr ModelNames kStarcoder2 = starcoder2();

constexpr ModelNames phi() {
  ModelNames names = stablelm();
  names.out = "self_attn.dense";
  names.up = "mlp.fc1";
  names.down = "mlp.fc2";
  names.final_norm = "final_layernorm";
  return names;
}
constexpr ModelNames kPhi = phi();

constexpr ModelNames glm4() {
  ModelNames names;
  names.after_attention = "post_self_attn_layernorm";
  names.before_mlp = "post_attention_layernorm";
  names.after_mlp = "post_mlp_layernorm";
  return names;
}
constexpr ModelNames kGlm4 = glm4();

constexpr ModelNames kOpt = {.root = "model.decoder",
                             .mlp = "",
                             .out = "self_attn.out_proj",
                             .up = "fc1",
                             .down = "fc2",
                             .first_norm = "self_attn_layer_norm",
                             .second_norm = "final_layer_norm",
                             .final_norm = "final_layer_norm"};

constexpr ModelNames qwen_moe() {
  ModelNames names;
  names.shared_expert = "mlp.shared_expert";
  return names;
}
constexpr ModelNames kQwenMoe = qwen_moe();

constexpr ModelNames gpt_oss() {
  ModelNames names;
  names.router = "mlp.router";
  return names;
}
constexpr ModelNames kGptOss = gpt_oss();

constexpr ModelNames granite_moe() {
  ModelNames names;
  names.mlp = "block_sparse_moe";
  names.router = "block_sparse_moe.router";
  names.experts = "block_sparse_moe.experts";
  return names;
}
constexpr ModelNames kGraniteMoe = granite_moe();

constexpr ModelNames llama4() {
  ModelNames names;
  names.mlp = "feed_forward";
  names.gate = "feed_forward.gate_proj";
  names.up = "feed_forward.up_proj";
  names.down = "feed_forward.down_proj";
  names.router = "feed_forward.router";
  names.experts = "feed_forward.experts";
  names.shared_expert = "feed_forward.shared_expert";
  return names;
}
constexpr ModelNames kLlama4 = llama4();

}  // namespace

const ModelNames& names_of(ModelConfig::Family family) {
  using enum ModelConfig::Family;
  switch (family) {
    case gpt_neox: return kNeox;
    case falcon: return kFalcon;
    case mpt: return kMpt;
    case bert: return kBert;
    case roberta: return kRoberta;
    case vit: return kVit;
    case dinov2: return kDinov2;
    case siglip:
    case clip: return kSiglip;
    case stablelm: return kStableLm;
    case qwen_moe: return kQwenMoe;
    case starcoder2: return kStarcoder2;
    case phi: return kPhi;
    case glm4: return kGlm4;
    case opt: return kOpt;
    case phimoe:
    case gpt_oss: return kGptOss;
    case granite_moe: return kGraniteMoe;
    case bloom: return kBloom;
    case llama4: return kLlama4;
    default: return kLlama;
  }
}

}  // namespace foregather::plan
