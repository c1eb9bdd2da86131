// The arguments of one call in a Thunder trace. Internal to traces/thunder.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "traces/thunder.h"

namespace foregather::traces {

/// A view of a call's node; nothing is copied. Arguments behind the 16th cannot be asked for.
class ThunderCall {
 public:
  explicit ThunderCall(const ThunderValue& node) : node_(node) {
    each_child(node, [&](const ThunderValue& child) {
      if (child.keyword.empty() && count_ < positional_.size()) positional_[count_++] = &child;
    });
  }

  std::string_view callee() const { return node_.text; }
  std::size_t count() const { return count_; }
  const ThunderValue& node() const { return node_; }

  /// A positional argument; null where there is none.
  const ThunderValue* at(std::size_t i) const { return i < count_ ? positional_[i] : nullptr; }
  const ThunderValue* keyword(std::string_view name) const {
    const ThunderValue* found = nullptr;
    each_child(node_, [&](const ThunderValue& child) {
      if (child.keyword == name) found = &child;
    });
    return found;
  }
  /// Positional argument i, or the keyword.
  const ThunderValue* at(std::size_t i, std::string_view name) const {
    return at(i) != nullptr ? at(i) : keyword(name);
  }
  /// The name that is argument i.
  ThunderName name(std::size_t i) const {
    return at(i) != nullptr && at(i)->kind == ThunderValue::Kind::name ? at(i)->name
                                                                       : ThunderName();
  }

 private:
  const ThunderValue& node_;
  std::array<const ThunderValue*, 16> positional_{};
  std::size_t count_ = 0;
};

/// Every name in an expression, in order.
template <class Visit>
void each_name(const ThunderValue& node, Visit visit) {
  for (std::uint32_t i = 0; i < node.size; ++i) {
    const ThunderValue& value = *(&node + i);
    if (value.kind == ThunderValue::Kind::name && value.name) visit(value.name);
  }
}

/// Is this what Thunder calls numbers and collections (i3, f12, b0, C1), not tensors?
bool is_number_name(std::string_view name);

/// An integer.
std::optional<std::int64_t> integer_of(const ThunderValue* value);
/// A tuple or list of integers, or one integer.
std::optional<std::vector<std::int64_t>> integers_of(const ThunderValue* value);
/// Of arguments from the i-th on: a tuple, or integers one by one.
std::optional<std::vector<std::int64_t>> shape_of(const ThunderCall& call, std::size_t i);
/// A dimension as an index from the front; nothing if it lies outside.
std::optional<std::size_t> dimension(std::int64_t index, std::size_t rank);
/// The order of dimensions that a permute or a transpose asks for.
std::optional<std::vector<std::size_t>> permutation(const ThunderCall& call, std::size_t rank);

}  // namespace foregather::traces
