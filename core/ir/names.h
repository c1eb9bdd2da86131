// The names of graph.h's own enumerators, as dumps and messages print them.
#pragma once

#include <string_view>

#include "core/ir/graph.h"

namespace foregather {

std::string_view name(ActionKind);
std::string_view name(Section);
std::string_view name(Reshard);

template <>
std::optional<ActionKind> parse(std::string_view);
template <>
std::optional<Section> parse(std::string_view);
template <>
std::optional<Reshard> parse(std::string_view);

}  // namespace foregather
