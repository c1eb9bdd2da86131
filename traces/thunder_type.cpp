#include "traces/thunder_type.h"
#include "core/base/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace foregather::traces {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 50;

struct NamedDType {
  std::string_view thunder, python;
  ThunderDType dtype;
};

constexpr std::array kDTypes{
    NamedDType{"f32", "float32", {DType::f32, 32}},
    NamedDType{"bf16", "bfloat16", {DType::bf16, 16}},
    NamedDType{"f16", "float16", {DType::f16, 16}},
    NamedDType{"f64", "float64", {DType::f64, 64}},
    NamedDType{"b8", "bool8", {DType::boolean, 8}},
    NamedDType{"i64", "int64", {DType::i64, 64}},
    NamedDType{"i32", "int32", {DType::i32, 32}},
    NamedDType{"i16", "int16", {DType::u8, 16}},
    NamedDType{"i8", "int8", {DType::u8, 8}},
    NamedDType{"ui8", "uint8", {DType::u8, 8}},
    NamedDType{"ui16", "uint16", {DType::u8, 16}},
    NamedDType{"ui32", "uint32", {DType::i32, 32}},
    NamedDType{"ui64", "uint64", {DType::i64, 64}},
    NamedDType{"c32", "complex32", {DType::f32, 32}},
    NamedDType{"c64", "complex64", {DType::f32, 64}},
    NamedDType{"c128", "complex128", {DType::f64, 128}},
    NamedDType{"f8_e5m2", "float8_e5m2", {DType::f8e5m2, 8}},
    NamedDType{"f8_e5m2fnuz", "float8_e5m2fnuz", {DType::f8e5m2, 8}},
    NamedDType{"f8_e4m3fn", "float8_e4m3fn", {DType::f8e4m3, 8}},
    NamedDType{"f8_e4m3fnuz", "float8_e4m3fnuz", {DType::f8e4m3, 8}},
    NamedDType{"f8_e8m0fnu", "float8_e8m0fnu", {DType::u8, 8}},
    NamedDType{"f4_e2m1fn_x2", "float4_e2m1fn_x2", {DType::u8, 4}},
    NamedDType{"f4", "float4", {DType::u8, 4}},
    NamedDType{"", "bool", {DType::boolean, 8}},
    NamedDType{"", "int", {DType::i64, 64}},
    NamedDType{"", "float", {DType::f32, 32}},
    NamedDType{"", "double", {DType::f64, 64}},
    NamedDType{"", "half", {DType::f16, 16}},
    NamedDType{"", "long", {DType::i64, 64}},
};

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

std::optional<std::int64_t> parse_size(std::string_view text) {
  text = trimmed(text);
  std::int64_t size = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, size);
  if (error != std::errc{} || stop != end || size < 0 || size >= kMost) return std::nullopt;
  return size;
}

// A symbolic size: "[IntegerProxy name=i42, value=22, static=…]".
std::optional<std::int64_t> parse_symbolic(std::string_view text) {
  constexpr std::string_view kValue = "value=";
  const std::size_t at = text.find(kValue);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + kValue.size());
  return parse_size(text.substr(0, text.find_first_of(",]")));
}

// From behind the opening bracket to behind the closing one.
std::optional<std::vector<std::int64_t>> take_dims(std::string_view& text) {
  constexpr std::size_t kMostDims = 64;
  std::vector<std::int64_t> dims;
  while (true) {
    text = trimmed(text);
    if (take(text, "]")) return dims;
    if (!dims.empty()) {
      if (!take(text, ",")) return std::nullopt;
      text = trimmed(text);
      if (take(text, "]")) return dims;
    }
    const bool symbolic = text.starts_with("[");
    const std::size_t end = text.find_first_of(symbolic ? "]" : ",]");
    if (end == std::string_view::npos || dims.size() == kMostDims) return std::nullopt;
    const auto size =
        symbolic ? parse_symbolic(text.substr(0, end + 1)) : parse_size(text.substr(0, end));
    if (!size) return std::nullopt;
    dims.push_back(*size);
    text.remove_prefix(symbolic ? end + 1 : end);
  }
}

// Nothing: no device.
std::optional<bool> take_device(std::string_view& text) {
  bool on_host = true;
  if (take(text, "thunder.devices.Device(")) {
    const std::size_t end = text.find(')');
    if (end == std::string_view::npos) return std::nullopt;
    on_host = text.substr(0, end).find("cuda") == std::string_view::npos;
    text.remove_prefix(end + 1);
  } else if (take(text, "cuda")) {
    on_host = false;
    if (take(text, ":"))
      while (!text.empty() && text.front() >= '0' && text.front() <= '9') text.remove_prefix(1);
  } else if (!take(text, "cpu") && !take(text, "meta")) {
    return std::nullopt;
  }
  if (!take(text, " ")) return std::nullopt;
  text = trimmed(text);
  return on_host;
}

}  // namespace

std::optional<ThunderDType> parse_thunder_dtype(std::string_view text) {
  if (text.ends_with('_')) text.remove_suffix(1);
  for (const NamedDType& row : kDTypes)
    if (!text.empty() && row.thunder == text) return row.dtype;
  return std::nullopt;
}

std::optional<ThunderDType> parse_python_dtype(std::string_view text) {
  if (const std::size_t dot = text.rfind('.'); dot != std::string_view::npos)
    text.remove_prefix(dot + 1);
  if (text.ends_with('_')) text.remove_suffix(1);
  for (const NamedDType& row : kDTypes)
    if (row.python == text) return row.dtype;
  return std::nullopt;
}

std::optional<ThunderTensorType> parse_thunder_type(std::string_view text) {
  text = trimmed(text);
  ThunderTensorType type;
  type.is_future = take(text, "FUTURE ");
  take(text, "DTensor ");
  const auto on_host = take_device(text);
  if (!on_host) return std::nullopt;
  type.on_host = *on_host;
  const std::size_t bracket = text.find('[');
  if (bracket == std::string_view::npos) return std::nullopt;
  const auto dtype = parse_thunder_dtype(trimmed(text.substr(0, bracket)));
  if (!dtype) return std::nullopt;
  type.dtype = *dtype;
  text.remove_prefix(bracket + 1);
  auto dims = take_dims(text);
  if (!dims) return std::nullopt;
  type.dims = std::move(*dims);
  if (!bytes_of(type)) return std::nullopt;
  return type;
}

std::optional<std::int64_t> elements(const std::vector<std::int64_t>& dims) {
  // An empty dimension keeps the others small all the same: strides are products of them.
  std::int64_t count = 1;
  bool is_empty = false;
  for (const std::int64_t size : dims) {
    is_empty |= size == 0;
    if (size < 0 || __builtin_mul_overflow(count, std::max<std::int64_t>(size, 1), &count) ||
        count >= kMost)
      return std::nullopt;
  }
  return is_empty ? 0 : count;
}

std::optional<Bytes> bytes_of(const ThunderTensorType& type) {
  const auto count = elements(type.dims);
  Bytes bits = 0;
  if (!count || __builtin_mul_overflow(*count, Bytes{type.dtype.bits}, &bits)) return std::nullopt;
  const Bytes bytes = bits / 8 + (bits % 8 != 0 ? 1 : 0);
  if (bytes >= kMost) return std::nullopt;
  return bytes;
}

}  // namespace foregather::traces
