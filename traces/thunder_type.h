// What a trace's comments say of a value: "cuda:0 f32[4, 16]".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/units.h"
#include "core/ir/kinds.h"

namespace foregather::traces {

/// Of a tensor's elements.
struct ThunderDType {
  DType type = DType::f32;  ///< the nearest of ours
  std::uint16_t bits = 32;  ///< of an element

  friend bool operator==(const ThunderDType&, const ThunderDType&) = default;
};
constexpr ThunderDType kThunderBool{DType::boolean, 8};
constexpr ThunderDType kThunderFloat32{DType::f32, 32};

/// A tensor as its comment describes it.
struct ThunderTensorType {
  ThunderDType dtype;
  std::vector<std::int64_t> dims;  ///< none: a scalar
  bool is_future = false;          ///< the result of a collective in flight
  bool on_host = false;            ///< cpu or meta

  /// Another shape of the same elements, and no future.
  ThunderTensorType with(std::vector<std::int64_t> other) const {
    ThunderTensorType type{dtype, std::move(other), false, on_host};
    return type;
  }

  friend bool operator==(const ThunderTensorType&, const ThunderTensorType&) = default;
};

/// "f32", "bf16", "f8_e4m3fn", "ui8", "b8", …; nothing if it is none.
std::optional<ThunderDType> parse_thunder_dtype(std::string_view text);

/// "float32", "bfloat16", "bool", …, as dtypes and torch spell them, the weak ones with '_' too.
std::optional<ThunderDType> parse_python_dtype(std::string_view text);

/// The text between the quotes; nothing if it describes no tensor, or one of 2^50 bytes or more.
/// Symbolic sizes count with their value.
std::optional<ThunderTensorType> parse_thunder_type(std::string_view text);

/// Product of the sizes; nothing if a size is negative, or that of the others than 0 is 2^50 or
/// more.
std::optional<std::int64_t> elements(const std::vector<std::int64_t>& dims);
/// Nothing if that is 2^50 or more.
std::optional<Bytes> bytes_of(const ThunderTensorType& type);

}  // namespace foregather::traces
