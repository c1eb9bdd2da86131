// What a config.json says and the ops of the model do not follow.
#pragma once

#include <string>
#include <vector>

#include "core/plan/config_file.h"
#include "core/plan/model.h"

namespace foregather::plan {

/// Fills ModelConfig::left_out and window. The window: Mistral, Mixtral, Phi-3 and Gemma have one
/// unless it is null, Qwen with use_sliding_window in layers from max_window_layers on; none where
/// layer_types has no sliding_attention (transformers' configuration classes).
void read_left_out(const ConfigFile& file, ModelConfig& config);

/// For people: left_out of the model and its towers, and a window that is shorter than the
/// sequence.
std::vector<std::string> model_warnings(const ModelConfig& config, const Train& train);

}  // namespace foregather::plan
