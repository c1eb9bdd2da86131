// Configs of several towers.
#pragma once

#include <string_view>

#include "core/plan/config_file.h"
#include "core/plan/model.h"

namespace foregather::plan {

/// vision_config, a projector of two linears, text_config.
ModelConfig compose_llava(const ConfigFile& file);
/// timm vision towers by name, a projector, text_config or a known language model by name. Source:
/// modeling_prismatic.py of openvla.
ModelConfig compose_openvla(const ConfigFile& file);

/// The config of one tower: the document's outermost object, or a section.
ModelConfig read_tower(const ConfigFile& file);

/// `vision` before `language`, with a projector: as OpenVLA's for two towers, as LLaVA's for one.
ModelConfig join_towers(std::vector<ModelConfig> vision, ModelConfig language);

}  // namespace foregather::plan
