#include "core/plan/key_values.h"

#include <charconv>
#include <cmath>
#include <optional>

#include "core/base/suggest.h"
#include "core/base/text.h"

namespace foregather::plan {
namespace {

template <class Number>
std::optional<Number> parsed(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The text of a value that came from a command line, to be read as another type.
const std::string* free_text(const KeyValue& value) {
  return value.is_text ? std::get_if<std::string>(&value.content) : nullptr;
}

tl::unexpected<Error> mismatch(const KeyValue& value, std::string_view expected) {
  return fail("{} is not {}", written(value), expected);
}

// Of keys that take no text: the quotes may be all that is wrong.
tl::unexpected<Error> no_text(const KeyValue& value, std::string_view expected) {
  const bool is_quoted = !value.is_text && std::holds_alternative<std::string>(value.content);
  return is_quoted ? fail("{} is a text, expected {}", written(value), expected)
                   : mismatch(value, expected);
}

std::string_view unquoted(std::string_view text) {
  const bool is_quoted = text.size() >= 2 && (text.front() == '"' || text.front() == '\'') &&
                         text.front() == text.back();
  return is_quoted ? text.substr(1, text.size() - 2) : text;
}

struct Suffix {
  std::string_view name;
  std::int64_t factor;
};

constexpr Suffix kSuffixes[] = {
    {"KiB", KiB},  {"MiB", MiB},      {"GiB", GiB},          {"TiB", 1024 * GiB},
    {"KB", 1'000}, {"MB", 1'000'000}, {"GB", 1'000'000'000}, {"TB", 1'000'000'000'000},
    {"B", 1}};

// "25MiB" -> 26214400; nothing if it is no size. Fractions ("1.5GiB") are whole bytes after
// scaling.
std::optional<double> parsed_size(std::string_view text) {
  std::int64_t factor = 1;
  for (const Suffix& suffix : kSuffixes) {
    if (!text.ends_with(suffix.name)) continue;
    factor = suffix.factor;
    text.remove_suffix(suffix.name.size());
    break;
  }
  while (text.ends_with(' ')) text.remove_suffix(1);
  if (factor == 1 && text.find_first_of(".eE") != std::string_view::npos) return std::nullopt;
  const auto number = parsed<double>(text);
  if (!number || !std::isfinite(*number)) return std::nullopt;
  return *number * static_cast<double>(factor);
}

constexpr std::string_view kSizeForm =
    "a size: an integer number of bytes, or a text like \"25MiB\"";

}  // namespace

std::string_view key_name(DType type) {
  if (type == DType::f32) return "fp32";
  if (type == DType::f16) return "fp16";
  return name(type);
}

std::string written(const KeyValue& value) {
  struct Writer {
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(std::int64_t number) const { return fmt::format("{}", number); }
    std::string operator()(double number) const {
      const std::string text = fmt::format("{}", number);
      return text.find_first_not_of("-0123456789") == text.npos ? text + ".0" : text;
    }
    std::string operator()(const std::string& text) const {
      constexpr std::size_t kLongest = 80;
      std::string shown;
      for (const char c : text.substr(0, kLongest))
        shown += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
      return "'" + shown + (text.size() > kLongest ? "…'" : "'");
    }
    std::string operator()(const std::vector<std::string>& list) const {
      return fmt::format("a list of {}", list.size());
    }
  };
  return std::visit(Writer{}, value.content);
}

Result<std::int64_t> to_integer(const KeyValue& value, std::int64_t least, std::int64_t most) {
  std::optional<std::int64_t> number;
  if (const auto* integer = std::get_if<std::int64_t>(&value.content)) number = *integer;
  if (const auto* text = free_text(value)) number = parsed<std::int64_t>(*text);
  if (!number) return no_text(value, fmt::format("an integer from {} to {}", least, most));
  if (*number < least || *number > most)
    return fail("{} is out of range, expected an integer from {} to {}", *number, least, most);
  return *number;
}

Result<Bytes> to_bytes(const KeyValue& value, Bytes least, Bytes most) {
  std::optional<double> size;
  if (const auto* integer = std::get_if<std::int64_t>(&value.content))
    size = static_cast<double>(*integer);
  if (const auto* text = std::get_if<std::string>(&value.content))
    size = parsed_size(value.is_text ? unquoted(*text) : *text);
  if (!size) return mismatch(value, kSizeForm);
  // Both limits are exact in a double: they are far below 2^53.
  if (*size < static_cast<double>(least) || *size > static_cast<double>(most))
    return fail("{} is out of range, expected a size from {} to {} bytes", written(value), least,
                most);
  return static_cast<Bytes>(*size);
}

Result<Ns> to_time(const KeyValue& value, Ns least, Ns most) {
  constexpr std::pair<std::string_view, Ns> kUnits[] = {
      {"ns", 1}, {"us", kMicrosecond}, {"ms", kMillisecond}, {"s", kSecond}};
  constexpr std::string_view kForm = "a time: a number and ns, us, ms or s, like \"5 ms\"";
  const auto* whole = std::get_if<std::string>(&value.content);
  if (whole == nullptr) return mismatch(value, kForm);
  for (const auto& [unit, factor] : kUnits) {
    std::string_view text = *whole;
    if (!text.ends_with(unit)) continue;
    text.remove_suffix(unit.size());
    while (text.ends_with(' ')) text.remove_suffix(1);
    const auto number = parsed<double>(text);
    if (!number || !std::isfinite(*number)) continue;
    const double time = *number * static_cast<double>(factor);
    if (time < static_cast<double>(least) || time > static_cast<double>(most))
      return fail("{} is out of range, expected a time from {} ns to {} s", written(value), least,
                  most / kSecond);
    return static_cast<Ns>(time + 0.5);
  }
  return mismatch(value, kForm);
}

Result<double> to_number(const KeyValue& value, double least, double most) {
  std::optional<double> number;
  if (const auto* real = std::get_if<double>(&value.content)) number = *real;
  if (const auto* integer = std::get_if<std::int64_t>(&value.content))
    number = static_cast<double>(*integer);
  if (const auto* text = free_text(value)) number = parsed<double>(*text);
  if (!number) return no_text(value, fmt::format("a number from {} to {}", least, most));
  if (!(*number >= least && *number <= most))
    return fail("{} is out of range, expected a number from {} to {}", written(value), least, most);
  return *number;
}

Result<bool> to_bool(const KeyValue& value) {
  if (const auto* flag = std::get_if<bool>(&value.content)) return *flag;
  if (const auto* text = free_text(value)) {
    if (*text == "true") return true;
    if (*text == "false") return false;
  }
  return no_text(value, "true or false");
}

Result<std::string> to_text(const KeyValue& value) {
  if (const auto* text = std::get_if<std::string>(&value.content)) {
    if (text->find('\0') != std::string::npos) return fail("the text contains a NUL byte");
    return *text;
  }
  return mismatch(value, "a text in quotes");
}

Result<std::vector<std::string>> to_list(const KeyValue& value) {
  if (const auto* list = std::get_if<std::vector<std::string>>(&value.content)) return *list;
  if (const auto* number = std::get_if<std::int64_t>(&value.content))
    return std::vector{std::to_string(*number)};
  const auto text = to_text(value);
  if (!text) return mismatch(value, "a list, or a text with commas");
  std::string_view rest = trimmed(*text);
  // On a command line, as in a file: ["q_proj", "v_proj"]
  const bool is_array = free_text(value) && rest.starts_with('[');
  if (is_array) {
    if (!rest.ends_with(']')) return mismatch(value, "a list, expected ']' at its end");
    rest = trimmed(rest.substr(1, rest.size() - 2));
  }
  std::vector<std::string> list;
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = trimmed(rest.substr(0, comma));
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
    list.emplace_back(is_array ? unquoted(part) : part);
  }
  return list;
}

std::string to_json(const KeyValue& value) {
  const auto quoted = [](std::string_view text) {
    std::string json = "\"";
    for (const char c : text) {
      if (c == '"' || c == '\\') json += '\\';
      json += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
    }
    return json + "\"";
  };
  if (const std::string* text = free_text(value)) {
    const bool is_word = *text == "true" || *text == "false" || *text == "null";
    return is_word || parsed<double>(*text) ? *text : quoted(*text);
  }
  if (const auto* text = std::get_if<std::string>(&value.content)) return quoted(*text);
  if (const auto* list = std::get_if<std::vector<std::string>>(&value.content)) {
    std::string json = "[";
    for (const std::string& part : *list)
      json += (json.size() > 1 ? "," : "") + to_json({part, true});
    return json + "]";
  }
  return written(value);
}

Result<std::size_t> to_choice(const KeyValue& value, std::span<const std::string_view> names) {
  const auto* text = std::get_if<std::string>(&value.content);
  if (text != nullptr)
    for (std::size_t i = 0; i < names.size(); ++i)
      if (names[i] == *text) return i;
  const std::string guess = text != nullptr ? did_you_mean(*text, names) : std::string();
  return fail("{} is not one of {}{}", written(value), fmt::join(names, ", "),
              guess.empty() ? guess : ";" + guess.substr(1));
}

}  // namespace foregather::plan
