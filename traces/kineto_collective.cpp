#include "traces/kineto_collective.h"

#include <algorithm>
#include <array>
#include <utility>
#include <nlohmann/json.hpp>

namespace foregather::traces {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMostElements = std::int64_t{1} << 50;

/// C++'s names of scalar types, and PyTorch's.
constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kTypes{{
    {"float", "Float"},
    {"double", "Double"},
    {"long", "Long"},
    {"long int", "Long"},
    {"int", "Int"},
    {"short", "Short"},
    {"signed char", "Char"},
    {"unsigned char", "Byte"},
    {"bool", "Bool"},
}};

std::string scalar_type(std::string_view type) {
  constexpr std::string_view kPrefix = "c10::";
  if (type.starts_with(kPrefix)) return std::string(type.substr(kPrefix.size()));
  const auto* const found = std::find_if(kTypes.begin(), kTypes.end(),
                                         [&](const auto& row) { return row.first == type; });
  return found == kTypes.end() ? std::string() : std::string(found->second);
}

std::int64_t elements_of(const Json& sizes) {
  std::int64_t elements = 1;
  for (const Json& size : sizes) {
    const std::int64_t extent = size.is_number_integer() ? size.get<std::int64_t>() : 0;
    elements *=
        std::clamp<std::int64_t>(extent, 0, kMostElements / std::max<std::int64_t>(elements, 1));
  }
  return elements;
}

/// Tensors among the first arguments; nothing: the argument is none, or a list of lists.
std::optional<std::int64_t> tensor_elements(const Json& shapes, const Json& types,
                                            std::size_t argument) {
  if (argument >= std::min(shapes.size(), types.size())) return std::nullopt;
  const Json& shape = shapes[argument];
  if (!shape.is_array() || !types[argument].is_string()) return std::nullopt;
  const auto type = types[argument].get<std::string>();
  if (!scalar_type(type).empty()) return elements_of(shape);
  if (type != "TensorList") return std::nullopt;
  std::int64_t elements = 0;
  for (const Json& each : shape)
    if (each.is_array()) elements = std::min(elements + elements_of(each), kMostElements);
  return elements;
}

}  // namespace

std::optional<OperatorCollective> operator_collective(const KinetoEvent& event) {
  constexpr std::string_view kOperator = "c10d::", kGloo = "gloo:";
  const bool is_gloo = event.name.starts_with(kGloo);
  if (!is_gloo && !event.name.starts_with(kOperator)) return std::nullopt;
  const Json shapes = Json::parse(event.shapes, nullptr, false);
  const Json types = Json::parse(event.types, nullptr, false);
  if (!shapes.is_array() || !types.is_array()) return std::nullopt;
  const auto first = tensor_elements(shapes, types, 0), second = tensor_elements(shapes, types, 1);
  if (!first && !second) return std::nullopt;
  OperatorCollective collective;
  collective.name = event.name.substr(is_gloo ? 0 : kOperator.size());
  if (!is_gloo && collective.name.ends_with('_')) collective.name.pop_back();
  // Outputs come first; a list of lists among them, or of the inputs of a scatter, is not printed.
  const bool scatters = !is_gloo && collective.name.find("scatter") != std::string::npos;
  collective.out_elements = first.value_or(0);
  collective.in_elements = second ? *second : scatters ? 0 : *first;
  for (std::size_t i = 0; i < 2 && collective.dtype.empty() && i < types.size(); ++i)
    if (types[i].is_string()) collective.dtype = scalar_type(types[i].get<std::string>());
  return collective;
}

}  // namespace foregather::traces
