// Hugging Face config.json -> model.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/result.h"
#include "core/plan/tape.h"
#include "core/plan/workload.h"

namespace foregather::plan {

/// The dimensions that a config.json gives for the families that build_model() knows.
struct ModelConfig {
  enum class Family : std::uint8_t { llama, gpt2 };
  Family family = Family::llama;
  std::string model_type;  ///< llama, mistral, qwen2, qwen3 or gpt2
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
  bool qk_norm = false;     ///< RMSNorm over each head's query and key (Qwen3)
  bool fused_gelu = false;  ///< GPT-2: torch's gelu kernel instead of Hugging Face's gelu_new chain
  double attention_dropout = 0, residual_dropout = 0, embedding_dropout = 0;
};

/// Which of the usual implementations the ops follow, where they differ in memory or kernels. The
/// defaults are Hugging Face transformers on PyTorch 2.9+ but for the norm, which is torch.nn's (as
/// in torchtitan, and as Hugging Face's kernels hub installs).
struct Implementation {
  enum class Rotary : std::uint8_t {
    real,     ///< Hugging Face: q·cos + rotate_half(q)·sin, one kernel an operator
    complex,  ///< torchtitan: a complex product in fp32
  };
  bool fused_rms_norm = true;  ///< torch.nn.RMSNorm; false: LlamaRMSNorm's chain of operators
  Rotary rotary = Rotary::real;
  /// Grouped-query attention copies keys and values out to all heads before SDPA (tiny models,
  /// transformers before 4.48); false: enable_gqa. Eager and fp32 attention always copy.
  bool repeat_kv = false;
  bool conv1d = true;  ///< GPT-2 weights are [in, out] (Hugging Face's Conv1D); false: [out, in]
};

/// Reads and checks a config.json. Unknown architectures are an error that names the known ones;
/// missing, non-integer, negative or absurd dimensions are errors with FILE:LINE:COL.
Result<ModelConfig> read_model_config(const std::string& path);

/// Parameters of the model, tied ones once.
std::int64_t count_parameters(const ModelConfig& config);

/// An error if the sizes that build_model() would compute leave 64 bits (absurd batches), or if the
/// sequence is longer than learned position embeddings reach.
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

}  // namespace foregather::plan
