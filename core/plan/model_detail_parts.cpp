#include "core/plan/model_detail_parts.h"

#include <algorithm>

#include "core/plan/model_families.h"

namespace foregather::plan {

bool has_inner_part(const ConfigFile& file) {
  return file.is_object("rope_parameters") &&
         file.section("rope_parameters").has("partial_rotary_factor");
}

void read_rotary_part(const ConfigFile& file, std::string_view key, double fallback,
                      ModelConfig& c) {
  const bool is_inside =
      has_inner_part(file) || (!file.has(key) && file.is_object("rope_parameters"));
  const ConfigFile source = is_inside ? file.section("rope_parameters") : file;
  if (is_inside) key = "partial_rotary_factor";
  const double factor = source.number(key, 0.01, 1, fallback);
  c.rotary_dim = static_cast<std::int64_t>(static_cast<double>(c.head_dim) * factor);
  if (c.rotary_dim < 1 || c.rotary_dim % 2 != 0)
    source.complain(key, fmt::format("'{}' = {} of a head dimension of {} rotates {} values, "
                                     "expected an even number: the rotary embedding turns pairs",
                                     source.label(key), factor, c.head_dim, c.rotary_dim));
}

void read_multipliers(const ConfigFile& file) {
  for (const char* key :
       {"embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling"})
    file.number(key, 0, 1e9, 1);
}

std::vector<std::int64_t> every(std::int64_t n, std::int64_t layers) {
  std::vector<std::int64_t> list;
  for (std::int64_t layer = n - 1; n > 0 && layer < layers; layer += n) list.push_back(layer);
  return list;
}

void read_unrotated(const ConfigFile& file, ModelConfig& c) {
  const std::vector<std::int64_t> rotates = file.sizes("no_rope_layers");
  // Llama 4's files have an empty list where every Nth is meant.
  if (!file.has("no_rope_layers") || (rotates.empty() && c.family == ModelConfig::Family::llama4)) {
    constexpr std::int64_t kUsual = 4;
    c.unrotated = every(file.size("no_rope_layer_interval", kMostLayers, kUsual), c.layers);
    return;
  }
  const auto count = static_cast<std::int64_t>(rotates.size());
  if (!file.error() && count < c.layers)
    file.complain("no_rope_layers",
                  fmt::format("'{}' has {} values for {} layers, expected one for each",
                              file.label("no_rope_layers"), count, c.layers));
  for (std::int64_t layer = 0; layer < std::min(count, c.layers); ++layer)
    if (rotates[static_cast<std::size_t>(layer)] == 0) c.unrotated.push_back(layer);
}

std::int64_t window_pattern(const ConfigFile& file, std::int64_t usual) {
  constexpr std::string_view kKey = "sliding_window_pattern";
  if (file.has("layer_types") && file.shown(kKey).starts_with('"')) return usual;
  const std::int64_t least = file.has_null("sliding_window") ? 0 : 1;
  return file.size(kKey, kMostLayers, usual, least);
}

std::vector<std::string> layer_types(const ConfigFile& file, const ModelConfig& c) {
  std::vector<std::string> types = file.texts("layer_types");
  const auto count = static_cast<std::int64_t>(types.size());
  if (!file.error() && count < c.layers)
    file.complain("layer_types",
                  fmt::format("'{}' has {} values for {} layers, expected one for each",
                              file.label("layer_types"), count, c.layers));
  return types;
}

}  // namespace foregather::plan
