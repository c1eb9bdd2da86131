// What a config.json says and the ops of the model do not follow.
#pragma once

#include <string>
#include <vector>

#include "core/plan/config_file.h"
#include "core/plan/model.h"

namespace foregather::plan {

/// Fills ModelConfig::left_out.
void read_left_out(const ConfigFile& file, ModelConfig& config);

/// For people: left_out of the model and its towers, and what this training makes of it.
std::vector<std::string> model_warnings(const ModelConfig& config, const Train& train);

}  // namespace foregather::plan
