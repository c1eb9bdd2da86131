// Which parameters are trained, and which linears are float8, by their names.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/plan/workload.h"

namespace foregather::plan {

/// Is the model's own parameter of that name, and of that tie, trained? With LoRA none is. A tied
/// weight is one parameter, trained under all its names if under one: then build_model() adds
/// tie_as_name() to Trainable::names.
bool is_trained(const Trainable& trainable, std::string_view name, std::string_view tie);
std::string tie_as_name(std::string_view tie);

/// Does LoRA put an adapter beside the linear that has this weight? As PEFT decides
/// (peft/tuners/tuners_utils.py, check_target_module_exists): the module's path is a target or ends
/// in "." and a target; "all-linear" means every linear of the blocks. Routers and stacked experts
/// have none: those that PEFT puts there since transformers 5 are not simulated (model_warnings).
bool has_adapter(const Trainable& trainable, std::string_view weight);

/// Does a block's linear with this weight multiply in float8? torchao converts what its filter lets
/// pass; torchtitan's: both sizes are multiples of 16, not the output head. Routers and stacked
/// experts stay as they are.
bool is_float8(const Train& train, std::string_view weight, std::span<const std::int64_t> shape);

/// "self_attn.q_proj" of "self_attn.q_proj.weight".
std::string module_of(std::string_view parameter);

}  // namespace foregather::plan
