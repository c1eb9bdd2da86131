// Pieces of pass arguments that several passes read.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/units.h"
#include "core/ir/graph.h"

namespace foregather::sim {

/// "NAME:VALUE", cut at the last colon.
struct NamedValue {
  std::string_view name, value;
};
std::optional<NamedValue> named_value(std::string_view text);

/// "5ms", "1.5us", "200ns", "2s": at least 1 ns, at most an hour.
std::optional<Ns> parse_duration(std::string_view text);

/// "512", "512B", "64KiB", "25MB", "1.5GiB", "1TiB": at least a byte, at most 2^50.
std::optional<Bytes> parse_bytes(std::string_view text);

/// A whole number from `least` to `most`.
std::optional<std::uint32_t> parse_count(std::string_view text, std::uint32_t least,
                                         std::uint32_t most);

/// Does a scope's path match? '*' stands for any characters, dots included, '?' for one. A pattern
/// without either also matches what lies below it: "layers.3" matches "layers.3.attn".
bool matches_scope(std::string_view pattern, std::string_view scope);

}  // namespace foregather::sim
