#include "traces/thunder_call.h"

#include <numeric>

namespace foregather::traces {

bool is_number_name(std::string_view name) {
  constexpr std::string_view kPrefixes = "ifbC";
  return name.size() > 1 && kPrefixes.find(name.front()) != std::string_view::npos &&
         name.find_first_not_of("0123456789", 1) == std::string_view::npos;
}

std::optional<std::int64_t> integer_of(const ThunderValue* value) {
  if (value == nullptr || value->kind != ThunderValue::Kind::integer) return std::nullopt;
  return value->integer;
}

std::optional<std::vector<std::int64_t>> integers_of(const ThunderValue* value) {
  if (value == nullptr) return std::nullopt;
  if (const auto one = integer_of(value)) return std::vector{*one};
  if (value->kind != ThunderValue::Kind::tuple && value->kind != ThunderValue::Kind::list)
    return std::nullopt;
  std::vector<std::int64_t> integers;
  bool all = true;
  each_child(*value, [&](const ThunderValue& child) {
    const auto integer = integer_of(&child);
    all = all && integer;
    if (integer) integers.push_back(*integer);
  });
  if (!all) return std::nullopt;
  return integers;
}

std::optional<std::vector<std::int64_t>> shape_of(const ThunderCall& call, std::size_t i) {
  if (call.at(i) != nullptr && call.at(i)->kind != ThunderValue::Kind::integer)
    return integers_of(call.at(i));
  std::vector<std::int64_t> shape;
  for (; call.at(i) != nullptr; ++i) {
    const auto size = integer_of(call.at(i));
    if (!size) return std::nullopt;
    shape.push_back(*size);
  }
  if (shape.empty()) return std::nullopt;
  return shape;
}

std::optional<std::size_t> dimension(std::int64_t index, std::size_t rank) {
  const auto size = static_cast<std::int64_t>(rank);
  if (index < -size || index >= size) return std::nullopt;
  return static_cast<std::size_t>(index < 0 ? index + size : index);
}

std::optional<std::vector<std::size_t>> permutation(const ThunderCall& call, std::size_t rank) {
  std::vector<std::size_t> order(rank);
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto first = integer_of(call.at(1)), second = integer_of(call.at(2));
  const bool swaps = last_component(call.callee()).find("transpose") != std::string_view::npos;
  if (first && second && (swaps || rank != 2)) {
    const auto a = dimension(*first, rank), b = dimension(*second, rank);
    if (!a || !b) return std::nullopt;
    std::swap(order[*a], order[*b]);
    return order;
  }
  const auto asked = shape_of(call, 1);
  if (!asked || asked->size() != rank) return std::nullopt;
  std::vector<bool> used(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    const auto from = dimension((*asked)[i], rank);
    if (!from || used[*from]) return std::nullopt;
    used[*from] = true;
    order[i] = *from;
  }
  return order;
}

}  // namespace foregather::traces
