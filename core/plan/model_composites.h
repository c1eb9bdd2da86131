// Configs of several towers.
#pragma once

#include <string_view>

#include "core/plan/config_file.h"
#include "core/plan/model.h"
#include "core/plan/model_families.h"

namespace foregather::plan {

/// vision_config, a projector of two linears, text_config.
ModelConfig compose_llava(const ConfigFile& file);
/// timm vision towers by name, a projector, text_config or a known language model by name. Source:
/// modeling_prismatic.py of openvla.
ModelConfig compose_openvla(const ConfigFile& file);

/// text_config alone, with a warning: the vision tower is not simulated.
ModelConfig compose_text(const ConfigFile& file);
/// The same of Qwen2-VL and Qwen2.5-VL, whose published files have the keys of the language model
/// in the outermost object.
ModelConfig compose_qwen_vl(const ConfigFile& file);

/// The config of one tower: the document's outermost object, or a section.
ModelConfig read_tower(const ConfigFile& file);
/// The same, of a family that is known.
ModelConfig read_as(const ConfigFile& file, const NamedFamily& named);

/// `vision` before `language`, with a projector: as OpenVLA's for two towers, as LLaVA's for one.
/// Features come from the last block but one: PrismaticVisionBackbone asks timm for layer
/// len(blocks) - 2 (modeling_prismatic.py), LLaVA's vision_feature_layer is -2 by default.
ModelConfig join_towers(std::vector<ModelConfig> vision, ModelConfig language);

}  // namespace foregather::plan
