// What the readers of several families' configs share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/plan/config_file.h"
#include "core/plan/model.h"

namespace foregather::plan {

/// Is the part of a head that rotates among the rope_parameters, where transformers 5 writes it and
/// where it goes first?
bool has_inner_part(const ConfigFile& file);

/// The part of a head that rotates: int(head_dim · factor).
void read_rotary_part(const ConfigFile& file, std::string_view key, double fallback,
                      ModelConfig& config);

/// Granite's multipliers are checked: each multiplies, whatever it is.
void read_multipliers(const ConfigFile& file);

/// Every Nth of so many layers: the Nth, 2Nth, …
std::vector<std::int64_t> every(std::int64_t n, std::int64_t layers);

/// Fills ModelConfig::unrotated from no_rope_layers (1 is a layer with positions, 0 one without),
/// or every no_rope_layer_interval-th, usually the 4th.
void read_unrotated(const ConfigFile& file, ModelConfig& config);

/// Every which layer sees all tokens (sliding_window_pattern). Beside layer_types, which go over
/// it, EXAONE 4's files spell it in letters; without windows transformers makes it 0.
std::int64_t window_pattern(const ConfigFile& file, std::int64_t usual);

/// An error if there are fewer than layers.
std::vector<std::string> layer_types(const ConfigFile& file, const ModelConfig& config);

}  // namespace foregather::plan
