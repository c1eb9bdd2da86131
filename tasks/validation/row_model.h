// The model of a row as a Hugging Face config.json.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/result.h"
#include "core/plan/model.h"

namespace foregather::tasks {

struct RowModel {
  plan::ModelConfig::Family family;  ///< whose modules it has (Qwen3: those of Llama)
  std::string json;                  ///< text of the config.json
  bool has_fused_qkv = false;
  std::int64_t hidden = 0, vocab = 0;
};

/// `config` is a name ("llama3_8b"; capitals, '-', '_', ' ' and '.' mean nothing, and Llama 3.1 and
/// 3.3 are Llama 3) or a JSON object with family (llama, mpt, gpt_neox), hidden_size,
/// num_hidden_layers, num_attention_heads, num_key_value_heads (as many if absent),
/// intermediate_size, vocab_size, tie_word_embeddings, max_position_embeddings (`positions` if
/// absent). The text has that family's own keys. `mpt` has learned positions, biases and no ALiBi;
/// `gpt_neox` a parallel residual and a quarter of each head rotated. LitGPT's Llama makes query,
/// key and value in one product.
///
/// Errors (without place): `unknown`, an unknown name or family, bad JSON.
Result<RowModel> model_of(const std::string& config, bool is_litgpt = false,
                          std::int64_t positions = 2048);

}  // namespace foregather::tasks
