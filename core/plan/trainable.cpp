#include "core/plan/trainable.h"

#include <algorithm>

namespace foregather::plan {

bool is_trained(const Trainable& trainable, std::string_view name, std::string_view tie) {
  if (trainable.kind != Trainable::Kind::named) return trainable.kind == Trainable::Kind::all;
  const std::string tied = tie_as_name(tie);
  const auto has = [&](std::string_view part) {
    if (part == tied) return true;
    return part.starts_with('^') ? name.starts_with(part.substr(1))
                                 : name.find(part) != std::string_view::npos;
  };
  return std::any_of(trainable.names.begin(), trainable.names.end(), has);
}

std::string tie_as_name(std::string_view tie) { return "tied: " + std::string(tie); }

namespace {

// What chooses experts is no torch.nn.Linear in transformers 5.
bool is_router(std::string_view module) {
  return module.ends_with("mlp.gate") || module.ends_with(".router");
}

}  // namespace

bool has_adapter(const Trainable& trainable, std::string_view weight) {
  constexpr std::string_view kWeight = ".weight";
  if (trainable.kind != Trainable::Kind::lora || !weight.ends_with(kWeight)) return false;
  weight.remove_suffix(kWeight.size());
  if (is_router(weight)) return false;
  return std::any_of(trainable.targets.begin(), trainable.targets.end(),
                     [&](std::string_view target) {
                       if (target == "all-linear")
                         return weight.find("norm") == std::string_view::npos;
                       if (target == weight) return true;
                       return weight.size() > target.size() && weight.ends_with(target) &&
                              weight[weight.size() - target.size() - 1] == '.';
                     });
}

bool is_float8(const Train& train, std::string_view weight, std::span<const std::int64_t> shape) {
  constexpr std::int64_t kMultiple = 16;
  if (train.float8 == Float8::none || shape.size() != 2) return false;
  if (weight.find("norm") != std::string_view::npos || is_router(module_of(weight)) ||
      weight.find("lora_") != std::string_view::npos)
    return false;
  return shape[0] % kMultiple == 0 && shape[1] % kMultiple == 0;
}

std::string module_of(std::string_view parameter) {
  return std::string(parameter.substr(0, parameter.rfind('.')));
}

}  // namespace foregather::plan
