#include "core/run/op_shapes.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <utility>

namespace foregather::run {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 50;
constexpr int kDeepest = 4;

constexpr std::array<std::pair<std::string_view, DType>, 19> kTypes{{
    {"float", DType::f32},
    {"Float", DType::f32},
    {"c10::BFloat16", DType::bf16},
    {"BFloat16", DType::bf16},
    {"c10::Half", DType::f16},
    {"Half", DType::f16},
    {"double", DType::f64},
    {"Double", DType::f64},
    {"c10::Float8_e4m3fn", DType::f8e4m3},
    {"Float8_e4m3fn", DType::f8e4m3},
    {"c10::Float8_e5m2", DType::f8e5m2},
    {"Float8_e5m2", DType::f8e5m2},
    {"long", DType::i64},
    {"long int", DType::i64},
    {"Long", DType::i64},
    {"int", DType::i32},
    {"Int", DType::i32},
    {"unsigned char", DType::u8},
    {"bool", DType::boolean},
}};

/// Reads the one JSON form that shapes have: lists of lists of integers.
class Lists {
 public:
  explicit Lists(std::string_view text) : text_(text) {}

  struct Argument {
    std::vector<std::vector<std::int64_t>> tensors;  ///< one, or those of a list of tensors
    bool is_list = false;
  };
  /// Nothing: the text has another form.
  std::optional<std::vector<Argument>> read() {
    std::vector<Argument> arguments;
    if (!take('[')) return std::nullopt;
    while (!take(']')) {
      Argument argument;
      if (!read_argument(argument)) return std::nullopt;
      arguments.push_back(std::move(argument));
      take(',');
    }
    return arguments;
  }

 private:
  bool take(char c) {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  bool read_argument(Argument& argument, int depth = 0) {
    if (depth > kDeepest || !take('[')) return false;
    std::vector<std::int64_t> sizes;
    bool has_lists = false;
    while (!take(']')) {
      if (at_ < text_.size() && text_[at_] == '[') {
        has_lists = true;
        if (!read_argument(argument, depth + 1)) return false;
      } else {
        std::int64_t size = 0;
        const char* const end = text_.data() + text_.size();
        const auto [next, error] = std::from_chars(text_.data() + at_, end, size);
        if (error != std::errc()) return false;
        at_ = static_cast<std::size_t>(next - text_.data());
        sizes.push_back(size);
      }
      take(',');
    }
    if (has_lists)
      argument.is_list = true;
    else
      argument.tensors.push_back(std::move(sizes));
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

/// The texts of a JSON list of texts; nothing of one with escapes, which types do not have.
std::vector<std::string_view> texts_of(std::string_view list) {
  std::vector<std::string_view> texts;
  for (std::size_t at = list.find('"'); at != list.npos; at = list.find('"', at)) {
    const std::size_t end = list.find('"', at + 1);
    if (end == list.npos) return {};
    texts.push_back(list.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return texts;
}

std::optional<std::int64_t> elements_of(const std::vector<std::int64_t>& sizes) {
  std::int64_t elements = 1;
  for (const std::int64_t size : sizes) {
    if (size < 0 || (size > 0 && elements > kMostElements / size)) return std::nullopt;
    elements *= size;
  }
  return elements;
}

}  // namespace

std::optional<DType> scalar_dtype(std::string_view type) {
  const auto* const found = std::find_if(kTypes.begin(), kTypes.end(),
                                         [&](const auto& row) { return row.first == type; });
  return found == kTypes.end() ? std::nullopt : std::optional(found->second);
}

std::vector<ShapedArgument> shaped_arguments(std::string_view shapes, std::string_view types) {
  std::vector<ShapedArgument> tensors;
  const auto arguments = Lists(shapes).read();
  if (!arguments) return tensors;
  const std::vector<std::string_view> names = texts_of(types);
  for (std::size_t i = 0; i < std::min(arguments->size(), names.size()); ++i) {
    const Lists::Argument& argument = (*arguments)[i];
    const auto dtype = argument.is_list && names[i] == "TensorList" ? std::optional(DType::f32)
                                                                    : scalar_dtype(names[i]);
    if (!dtype) continue;
    for (const std::vector<std::int64_t>& sizes : argument.tensors)
      if (const auto elements = elements_of(sizes))
        tensors.push_back({i, sizes, *dtype, *elements});
  }
  return tensors;
}

}  // namespace foregather::run
