// Hugging Face config.json -> model.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/plan/tape.h"
#include "core/plan/workload.h"

namespace foregather::plan {

struct TreePlan;

/// What a model is: dimensions and shape. One tower of blocks between an embedding and a head; a
/// model of several towers lists those that come before (vision) in `towers`. The defaults are
/// Llama's shape. model_families.h says which family has which.
struct ModelConfig {
  enum class Family : std::uint8_t {
    llama,
    gpt2,
    gemma,
    gpt_neox,
    falcon,
    mpt,
    bert,
    roberta,
    vit,
    dinov2,
    siglip,
    clip,
    stablelm,
    phi3,
    mixtral,
    qwen_moe,
    deepseek,
    starcoder2,
    phi,
    glm4,
    opt,
    gpt_oss,
    granite_moe,
    bloom,
    phimoe,
    llama4,
    tree,  ///< ModelConfig::tree says all
  };
  enum class Norm : std::uint8_t {
    rms,
    rms_offset,  ///< Gemma: times (1 + weight), always a chain of operators
    rms_wide,    ///< OLMo 2, GPT-OSS: times the weight in fp32
    layer,
    layer_wide,    ///< Cohere: in fp32, always a chain of operators
    layer_bare,    ///< OLMo: in fp32, without weight and bias
    layer_offset,  ///< Nemotron: times (1 + weight)
  };
  enum class Activation : std::uint8_t {
    silu,
    gelu,
    gelu_new,
    quick_gelu,
    relu,
    relu2,
    bloom_gelu
  };
  enum class Mlp : std::uint8_t {
    plain,        ///< down(act(up(x)))
    gated,        ///< down(act(gate(x)) · up(x))
    gated_fused,  ///< the same with gate and up in one projection (Phi-3, DINOv2 giant)
  };
  enum class Positions : std::uint8_t { none, rotary, learned, alibi };
  /// How the rotary embedding differs from Llama's.
  enum class Rotary : std::uint8_t {
    usual,
    wide_tables,    ///< OLMo 2: the tables are fp32, so that the products are
    wide,           ///< Cohere: query and key are widened to fp32 first
    spread_tables,  ///< GLM: each block spreads the tables to pairs side by side
    wide_spread,    ///< ERNIE 4.5: spread in fp32, to which each factor is widened
    halves,         ///< GPT-OSS: the halves of a head apart, by tables of half the width
    complex,        ///< Llama 4: pairs as complex numbers, in fp32, as torchtitan's
  };
  enum class Residual : std::uint8_t {
    serial,       ///< x + attention(norm(x)), then x + mlp(norm(x))
    parallel,     ///< x + attention(norm(x)) + mlp(norm(x)), of one norm or two
    post_norm,    ///< norm(x + attention(x)), then norm(x + mlp(x)) (BERT)
    output_norm,  ///< x + norm(attention(x)), then x + norm(mlp(x)) (OLMo 2)
  };
  enum class Head : std::uint8_t {
    language_model,         ///< final norm, vocabulary projection, next-token loss
    masked_language_model,  ///< dense, activation, norm, tied projection with a bias
    pooler,                 ///< BERT's: tanh(dense(first token))
    features,               ///< final norm alone
    attention_pool,         ///< SigLIP's: final norm, then one query attends to all tokens
    classifier,             ///< final norm, then a linear over the first token
  };
  /// How tokens choose experts, and what the routing weights are then. The defaults are Mixtral's.
  struct Router {
    bool of_chosen = false;    ///< GPT-OSS: a softmax over the chosen alone, as it comes
    bool wide_choice = false;  ///< Granite MoE: chosen of fp32 logits
    bool mixer = false;        ///< Phi-3.5-MoE draws two experts (SparseMixer); the rest is unread
    bool f32_product = false;  ///< DeepSeek: token and weight are widened first
    bool sigmoid = false;      ///< instead of a softmax; a bias takes part in the choice
    bool narrow = false;       ///< Qwen: back in the compute dtype; else they widen what they weigh
    bool sums_to_one = true;
    bool scaled = false;  ///< DeepSeek: times a number
    bool of_all = false;  ///< Llama 4: one of each expert, 0 where it is not chosen; rest unread
  };
  /// Mixture of experts; count 0: none.
  struct Experts {
    std::int64_t count = 0;
    std::int64_t active = 0;        ///< experts a token
    std::int64_t intermediate = 0;  ///< of one expert
    std::int64_t shared = 0;   ///< intermediate size of the experts that all tokens use; 0: none
    bool shared_gate = false;  ///< Qwen2-MoE weighs the shared expert by a sigmoid
    std::int64_t first_layer = 0;  ///< layers before are dense (DeepSeek)
    std::int64_t every = 1;        ///< of the others every Nth has experts (the Nth, 2Nth, …)
    std::vector<std::int64_t> dense_layers;  ///< and these have none (Qwen's mlp_only_layers)
    Router router;
    bool noise = false;     ///< Phi-3.5-MoE: tokens times random numbers before they choose, twice
    bool take_all = false;  ///< Llama 4: each takes all tokens, times their routing weights
    /// GPT-OSS: each product has a bias, and gate and up, side by side, are clamped:
    /// (up + 1) · gate · sigmoid(1.702 · gate).
    bool biased_and_clamped = false;
  };
  /// DeepSeek's multi-head latent attention; kv_rank 0: none.
  struct Latent {
    std::int64_t query_rank = 0;  ///< 0: queries are projected at once
    std::int64_t kv_rank = 0;
    std::int64_t plain_dim = 0;  ///< of a head's query and key, without positions
    std::int64_t rotary_dim = 0;
    std::int64_t value_dim = 0;
  };
  /// What a vision tower sees; size 0: tokens, not images.
  struct Image {
    std::int64_t size = 0;  ///< pixels of an edge
    std::int64_t patch = 0;
    std::int64_t channels = 3;
    std::int64_t prefix = 0;      ///< tokens before the patches: class token, registers
    std::int64_t table_rows = 0;  ///< of the position table
    bool patch_bias = true;
    bool mask_token = false;   ///< DINOv2's, a parameter that supervised training does not use
    bool pre_norm = false;     ///< CLIP normalizes embeddings
    std::int64_t dropped = 0;  ///< tokens that the projector does not get (LLaVA: the class token)
    std::int64_t idle_blocks = 0;  ///< blocks behind the one that features come from

    std::int64_t patches() const { return patch > 0 ? (size / patch) * (size / patch) : 0; }
    std::int64_t tokens() const { return prefix + patches(); }
  };

  Family family = Family::llama;
  std::string model_type;  ///< as transformers names it: llama, qwen3, gpt_neox, …
  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t intermediate = 0;
  std::int64_t vocab = 0;
  std::int64_t max_positions = 0;
  bool tied_embeddings = false;
  bool qkv_bias = false;
  bool output_bias = false;  ///< of the attention's output projection
  bool mlp_bias = false;
  bool sinks = false;           ///< GPT-OSS: of each head a logit that takes part in the softmax
  bool has_sdpa = true;         ///< transformers' class runs a fused scaled_dot_product_attention
  bool qk_norm = false;         ///< a norm over each head's query and key (Qwen3)
  bool turned_qk_norm = false;  ///< Llama 4: without a weight, behind the rotary embedding
  bool fused_gelu = false;  ///< GPT-2: torch's gelu kernel instead of Hugging Face's gelu_new chain
  double attention_dropout = 0, residual_dropout = 0, embedding_dropout = 0;

  Norm norm = Norm::rms;
  bool norm_bias = false;  ///< LayerNorm's
  Activation activation = Activation::silu;
  Mlp mlp = Mlp::gated;
  Positions positions = Positions::rotary;
  Rotary rotary = Rotary::usual;
  std::int64_t rotary_dim = 0;          ///< part of a head that is rotated; 0: all of it
  std::vector<std::int64_t> unrotated;  ///< layers without positions (SmolLM3)
  /// Queries times a number of their position: Ministral 3, Llama 4's layers without positions.
  bool scaled_queries = false;
  std::int64_t position_rows = 0;  ///< of learned positions; 0: max_positions
  Residual residual = Residual::serial;
  bool two_parallel_norms = false;
  bool fused_qkv = false;
  bool causal = true;
  bool sandwich_norms = false;     ///< Gemma 2: norms after attention and mlp as well
  bool scaled_embeddings = false;  ///< Gemma: times √hidden
  bool normed_embeddings = false;  ///< BLOOM
  std::int64_t token_types = 0;    ///< BERT's segment embeddings
  bool scaled_residual = false;    ///< Granite: what is added to x is multiplied first
  bool scaled_logits = false;      ///< Granite, Cohere
  bool capped_scores = false;      ///< Gemma 2: cap · tanh(score / cap), before the mask
  bool capped_logits = false;      ///< the same of logits
  bool norm_per_head = false;      ///< StableLM: qk_norm has a weight of its own for each head
  bool norm_all_heads = false;     ///< OLMo 2: qk_norm is over the whole projection
  bool layer_scale = false;        ///< DINOv2
  bool head_bias = false;
  bool has_pooler = false;  ///< BertForPreTraining: beside the masked language model
  std::int64_t classes = 0;
  Head head = Head::language_model;
  Experts experts;
  Latent latent;
  Image image;

  std::int64_t window = 0;  ///< tokens that the attention of windowed layers sees; 0: all see all
  std::vector<std::int64_t> windowed;  ///< layers with it; none: each, of a class without others
  bool in_chunks = false;  ///< Llama 4: of its own window's tokens, windows lie side by side
  std::vector<std::string> left_out;  ///< for people: what the config says and no op follows

  std::vector<ModelConfig> towers;      ///< vision towers before this one
  std::vector<std::int64_t> projector;  ///< widths: of all towers' features, …, hidden

  /// A model that is spelled out, and how it fits together; null: it is of a family. The rest says
  /// nothing then but `model_type`, `layers` (modules), `hidden` and `causal`.
  std::shared_ptr<const ModuleTree> tree;
  std::shared_ptr<const TreePlan> tree_plan;  ///< points into `tree`
  TreeLoss tree_loss = TreeLoss::sum;
  std::int64_t target_len = 0;

  bool is_vision() const { return image.size > 0; }
  bool has_experts(std::int64_t layer) const;
  bool has_positions(std::int64_t layer) const;
  bool has_window(std::int64_t layer) const;
  /// Per head: of query and key, and of value.
  std::int64_t query_dim() const {
    return latent.kv_rank > 0 ? latent.plain_dim + latent.rotary_dim : head_dim;
  }
  std::int64_t value_dim() const { return latent.kv_rank > 0 ? latent.value_dim : head_dim; }
};

/// Which of the usual implementations the ops follow, where they differ in memory or kernels. The
/// defaults are Hugging Face transformers on PyTorch 2.9+ but for the norm, which is torch.nn's (as
/// in torchtitan, and as Hugging Face's kernels hub installs).
struct Implementation {
  enum class Rotary : std::uint8_t {
    real,     ///< Hugging Face: q·cos + rotate_half(q)·sin, one kernel an operator
    complex,  ///< torchtitan: a complex product in fp32, for which Inductor has no code of its own
  };
  bool fused_rms_norm = true;  ///< torch.nn.RMSNorm; false: LlamaRMSNorm's chain of operators
  Rotary rotary = Rotary::real;
  /// Grouped-query attention copies keys and values out to all heads before SDPA (tiny models,
  /// transformers before 4.48); false: enable_gqa. Eager and fp32 attention always copy.
  bool repeat_kv = false;
  /// The GPU has FlashAttention; without, `sdpa` is memory-efficient attention.
  bool flash_attention = true;
  Bytes workspace = 0;  ///< that the library of products gets for each thread that calls it
  bool conv1d = true;   ///< GPT-2 weights are [in, out] (Hugging Face's Conv1D); false: [out, in]
};

/// Reads and checks a config.json. Unknown architectures are an error that names the known ones;
/// missing, non-integer, negative or absurd dimensions are errors with FILE:LINE:COL. Configs of
/// several towers (LLaVA, OpenVLA) may leave out in their sections what transformers has defaults
/// for.
Result<ModelConfig> read_model_config(const std::string& path);

/// The model of a workload: its config.json with the keys of [model] over it, or those keys alone,
/// or several configs as towers; then its number of layers.
Result<ModelConfig> read_model(const Workload& workload);

/// Larger models are refused: ten trillion.
inline constexpr double kMostParameters = 1e13;

/// Parameters of the model and its towers, tied ones once. Without multi-token-prediction layers
/// and without buffers (DeepSeek-V3's router bias).
std::int64_t count_parameters(const ModelConfig& config);

/// An error if the sizes that build_model() would compute leave 64 bits (absurd batches), or if the
/// sequence is longer than learned position embeddings reach. Its place is the workload's key.
Status check_model_size(const ModelConfig& config, const Train& train);

/// The chain embedding, blocks, head (final norm, vocabulary projection, loss) with the ops that
/// PyTorch eager runs for one micro-batch of `train`, which must be resolved (seq_len > 0) and pass
/// check_model_size(). The input of the first module is the token ids; the output of the last is
/// the loss. A module with an empty path has scopes that are whole paths.
///
/// model_flops follow torchtitan: 6 · (parameters without embeddings) · tokens, plus 12 · heads ·
/// head_dim · S · tokens a block; the vocabulary projection counts also when it is tied.
Model build_model(const ModelConfig& config, const Train& train,
                  const Implementation& implementation = {});
/// The same as the workload's strategy has it: where FSDP1 flattens a part that is trained with one
/// that is not (use_orig_params), all that it flattens are views of one parameter that requires a
/// gradient (torch/distributed/fsdp/_flat_param.py, _use_unsharded_views), so that autograd
/// computes theirs, too. DeepCompile's graphs have no idle ops.
Model build_model(const ModelConfig& config, const Workload& workload,
                  const Implementation& implementation = {});

}  // namespace foregather::plan
