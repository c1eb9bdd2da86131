#include "core/plan/model_composites.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>

#include "core/plan/model_families.h"

namespace foregather::plan {

namespace {

using Head = ModelConfig::Head;

std::int64_t features_of(const std::vector<ModelConfig>& towers) {
  std::int64_t width = 0;
  for (const ModelConfig& tower : towers) width += tower.hidden;
  return width;
}

/// A vision tower of timm, by the name in OpenVLA's timm_model_ids.
struct TimmTower {
  std::string_view prefix;
  ModelConfig::Family family;
  std::int64_t hidden, layers, heads, intermediate, patch, registers;
};

// timm/models/vision_transformer.py.
constexpr TimmTower kTimmTowers[] = {
    {"vit_large_patch14_reg4_dinov2", ModelConfig::Family::dinov2, 1024, 24, 16, 4096, 14, 4},
    {"vit_large_patch14_dinov2", ModelConfig::Family::dinov2, 1024, 24, 16, 4096, 14, 0},
    {"vit_so400m_patch14_siglip", ModelConfig::Family::siglip, 1152, 27, 16, 4304, 14, 0},
    {"vit_base_patch16_siglip", ModelConfig::Family::siglip, 768, 12, 12, 3072, 16, 0},
    {"vit_large_patch14_clip", ModelConfig::Family::clip, 1024, 24, 16, 4096, 14, 0},
};

const ModelConfig& shape_of(ModelConfig::Family kind) {
  const auto is_it = [kind](const Family& family) { return family.shape.family == kind; };
  const auto found = std::ranges::find_if(families(), is_it);
  assert(found != std::ranges::end(families()));
  return found->shape;
}

ModelConfig timm_tower(const ConfigFile& file, std::string_view name, std::int64_t image) {
  for (const TimmTower& row : kTimmTowers) {
    if (!name.starts_with(row.prefix)) continue;
    if (image < row.patch)
      file.complain("image_sizes", fmt::format("'image_sizes' has {}, expected at least the {} "
                                               "pixels of a patch of {}",
                                               image, row.patch, row.prefix));
    ModelConfig tower = shape_of(row.family);
    tower.model_type = std::string(row.prefix);
    tower.hidden = row.hidden;
    tower.layers = row.layers;
    tower.heads = tower.kv_heads = row.heads;
    tower.head_dim = row.hidden / row.heads;
    tower.intermediate = row.intermediate;
    tower.image.size = image;
    tower.image.patch = row.patch;
    // timm has no mask token, and with registers no positions for the prefix.
    tower.image.mask_token = false;
    tower.image.table_rows = row.registers > 0 ? tower.image.patches() : tower.image.tokens();
    tower.image.prefix += row.registers;
    tower.image.dropped = tower.image.prefix;
    return tower;
  }
  std::string known;
  for (const TimmTower& row : kTimmTowers)
    known += (known.empty() ? "" : ", ") + std::string(row.prefix);
  file.complain("timm_model_ids", fmt::format("unknown vision tower {}, expected one of {}",
                                              shown_text(name), known));
  return {};
}

// What else the document describes is not there.
ModelConfig text_alone(const ConfigFile& file, ModelConfig language) {
  const std::string_view vision = "vision_config";
  file.section(vision);  // has to be an object
  language.left_out.push_back(
      fmt::format("{}: 'vision_config' has no effect: the language model is simulated alone, "
                  "without images and without the parameters of what sees them",
                  file.place(vision)));
  return language;
}

}  // namespace

ModelConfig join_towers(std::vector<ModelConfig> vision, ModelConfig language) {
  if (vision.empty()) return language;
  const std::int64_t features = features_of(vision);
  // PrismaticProjector: four times the width of fused features first; one linear less for one
  // tower.
  if (vision.size() > 1)
    language.projector = {features, 4 * features, language.hidden, language.hidden};
  else
    language.projector = {features, language.hidden, language.hidden};
  for (ModelConfig& tower : vision) {
    tower.image.dropped = tower.image.prefix;
    tower.image.idle_blocks = 1;
  }
  language.towers = std::move(vision);
  return language;
}

ModelConfig compose_llava(const ConfigFile& file) {
  if (!file.has("vision_config") || !file.has("text_config")) {
    file.complain("vision_config",
                  "'vision_config' or 'text_config' is missing, expected both objects");
    return {};
  }
  ModelConfig vision = read_tower(file.section("vision_config"));
  ModelConfig language = read_tower(file.section("text_config"));
  if (file.error()) return language;
  if (!vision.is_vision() || language.is_vision() || !language.towers.empty())
    file.complain("vision_config",
                  "'vision_config' and 'text_config' are expected to be a vision tower and a "
                  "language model");
  ModelConfig joined = join_towers({std::move(vision)}, std::move(language));
  const std::string strategy = file.shown("vision_feature_select_strategy");
  if (strategy == "\"full\"") joined.towers.front().image.dropped = 0;
  const std::string layer = file.shown("vision_feature_layer");
  if (layer == "-1") joined.towers.front().image.idle_blocks = 0;
  const auto leave_out = [&](std::string_view key, std::string_view usual, std::string_view what) {
    if (file.has(key) && file.shown(key) != usual)
      joined.left_out.push_back(
          fmt::format("{}: '{}' has no effect: {}", file.place(key), file.label(key), what));
  };
  if (layer != "-1")
    leave_out("vision_feature_layer", "-2", "features come from the tower's last layer but one");
  leave_out("multimodal_projector_bias", "true", "the projector has biases");
  if (strategy != "\"full\"")
    leave_out("vision_feature_select_strategy", "\"default\"", "the class token is left out");
  return joined;
}

ModelConfig compose_text(const ConfigFile& file) {
  if (!file.has("text_config")) {
    file.complain("text_config", "'text_config' is missing, expected the language model's object");
    return {};
  }
  ModelConfig language = read_tower(file.section("text_config"));
  if (file.error()) return language;
  if (language.is_vision() || !language.towers.empty())
    file.complain("text_config", "'text_config' is expected to be a language model");
  // The outermost object decides, if it says so.
  language.tied_embeddings = file.flag("tie_word_embeddings", language.tied_embeddings);
  return text_alone(file, std::move(language));
}

ModelConfig compose_qwen_vl(const ConfigFile& file) {
  if (file.has("text_config")) return compose_text(file);
  NamedFamily named;
  named.model_type = "qwen2_vl_text";
  for (const Family& family : families())
    if (family.model_types.starts_with(named.model_type)) named.family = &family;
  ModelConfig language = read_as(file, named);
  language.left_out.clear();  // read_tower() reads them
  return text_alone(file, std::move(language));
}

ModelConfig compose_openvla(const ConfigFile& file) {
  const std::vector<std::string> names = file.texts("timm_model_ids");
  const std::vector<std::int64_t> images = file.sizes("image_sizes");
  if (!file.has("text_config") || names.empty() || images.size() < names.size()) {
    file.complain("timm_model_ids",
                  "'timm_model_ids', 'image_sizes' or 'text_config' is missing, expected a list of "
                  "names, a list of as many sizes and an object");
    return {};
  }
  std::vector<ModelConfig> towers;
  for (std::size_t i = 0; i < names.size(); ++i)
    towers.push_back(timm_tower(file, names[i], images[i]));
  ModelConfig language = read_tower(file.section("text_config"));
  if (file.error()) return language;
  return join_towers(std::move(towers), std::move(language));
}

}  // namespace foregather::plan
