// The families of models: one row each of names, spelling of keys, defaults and shape.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "core/plan/config_file.h"
#include "core/plan/model.h"

namespace foregather::plan {

/// How a family's config spells what all families have; several spellings are separated by spaces.
struct FamilyKeys {
  std::string_view hidden = "hidden_size";
  std::string_view layers = "num_hidden_layers";
  std::string_view heads = "num_attention_heads";
  std::string_view kv_heads = "num_key_value_heads";  ///< empty: as many as heads
  std::string_view intermediate = "intermediate_size";
  std::string_view vocab = "vocab_size";  ///< empty: no tokens
  std::string_view positions = "max_position_embeddings";
  std::string_view activation = "hidden_act";
  std::string_view attention_dropout = "attention_dropout";
  std::string_view residual_dropout = {};
  std::string_view embedding_dropout = {};
};

/// What transformers' configuration class takes for what a file may leave out. 0: hidden, layers,
/// heads, intermediate and vocab must be given; kv_heads as heads; head_dim hidden / heads.
struct FamilyDefaults {
  std::int64_t hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t intermediate = 0, vocab = 0;
  std::int64_t positions = 2048;
  /// Intermediate sizes that are derived: a multiple of hidden; 0: must be given.
  std::int64_t times_hidden = 0;
  std::string_view activation = "silu";
  double dropout = 0;  ///< of all dropout keys
};

struct Family {
  std::string_view model_types;  ///< separated by spaces; the first is transformers' name
  std::string_view
      architectures;  ///< model classes, separated by spaces; the first is the usual one
  FamilyKeys keys;
  FamilyDefaults defaults;
  ModelConfig shape;
  /// Reads what no column says. The common keys are read already.
  void (*details)(const ConfigFile& file, std::string_view architecture,
                  ModelConfig& config) = nullptr;
  /// Reads a config of several towers; the columns from keys to details do not apply then.
  ModelConfig (*compose)(const ConfigFile& file) = nullptr;
};

/// All families. Source of names, spelling, defaults and shape:
/// transformers/models/*/configuration_*.py and modeling_*.py (5.23, and 4.x for older spellings).
std::span<const Family> families();

/// The family of the document's architecture or model_type, null after a complaint.
struct NamedFamily {
  const Family* family = nullptr;
  std::string model_type;
  std::string architecture;  ///< empty: the document names none
};
NamedFamily find_family(const ConfigFile& file);

/// Do the keys of [model] know this one?
bool is_model_key(std::string_view key);
/// All of them, for suggestions.
std::span<const std::string_view> model_keys();

/// The bounds of sizes.
inline constexpr std::int64_t kLargestSize = std::int64_t{1} << 24;
inline constexpr std::int64_t kMostLayers = 4096;

}  // namespace foregather::plan
