// Which layers of a model see a window of tokens alone.
#pragma once

#include "core/plan/config_file.h"
#include "core/plan/model.h"

namespace foregather::plan {

/// Fills ModelConfig::window and windowed; unrotated must be read. `layer_types` goes over what a
/// class does without them, but in those that know one kind of layer (transformers'
/// configuration_*.py and modeling_*.py).
void read_window(const ConfigFile& file, ModelConfig& config);

}  // namespace foregather::plan
