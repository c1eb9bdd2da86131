#include "traces/json_elements.h"

#include <simdjson.h>

#include <string>

#include "traces/json_scan.h"
#include "traces/json_window.h"

namespace foregather::traces {
namespace {

namespace json = simdjson::ondemand;

static_assert(kJsonPadding >= simdjson::SIMDJSON_PADDING);

json::value& of(void* value) { return *static_cast<json::value*>(value); }

std::optional<std::uint64_t> whole(json::value& value) {
  std::uint64_t number = 0;
  if (value.get_uint64().get(number) == simdjson::SUCCESS) return number;
  std::int64_t negative = 0;
  if (value.get_int64().get(negative) == simdjson::SUCCESS)
    return static_cast<std::uint64_t>(negative);
  double real = 0;
  if (value.get_double().get(real) == simdjson::SUCCESS) return whole_number(real);
  return std::nullopt;
}

}  // namespace

Scalar JsonValue::scalar() {
  json::value& value = of(value_);
  Scalar scalar;
  json::json_type type{};
  if (value.type().get(type) != simdjson::SUCCESS) return scalar;
  if (type == json::json_type::number) {
    scalar.number = whole(value);
  } else if (type == json::json_type::string) {
    std::string_view text;
    if (value.get_string().get(text) != simdjson::SUCCESS) return scalar;
    scalar.text = text;
    scalar.number = whole_number(text);
  } else if (type == json::json_type::boolean) {
    bool flag = false;
    if (value.get_bool().get(flag) == simdjson::SUCCESS) scalar.number = flag ? 1 : 0;
  } else {
    scalar.is_absent = type == json::json_type::null;
  }
  return scalar;
}

bool JsonValue::each(const VisitElement& visit) {
  json::array array;
  if (of(value_).get_array().get(array) != simdjson::SUCCESS) return false;
  for (auto element : array) {
    json::value value;
    if (std::move(element).get(value) != simdjson::SUCCESS) return false;
    JsonValue wrapped(&value);
    if (!visit(wrapped)) return false;
  }
  return true;
}

bool JsonValue::each_field(const VisitField& visit) {
  json::object object;
  if (of(value_).get_object().get(object) != simdjson::SUCCESS) return false;
  for (auto result : object) {
    json::field field;
    if (std::move(result).get(field) != simdjson::SUCCESS) return false;
    const std::string_view key = plain_key(field.key().raw());
    JsonValue wrapped(&field.value());
    if (!visit(key, wrapped)) return false;
  }
  return true;
}

struct JsonElements::Parser {
  json::parser parser;
  std::string alone;

  std::size_t read_all(std::string_view text, const JsonValue::VisitElement& read) {
    json::document document;
    json::array array;
    std::size_t n = 0;
    if (parser.iterate(text.data(), text.size(), text.size() + kJsonPadding).get(document) !=
            simdjson::SUCCESS ||
        document.get_array().get(array) != simdjson::SUCCESS)
      return 0;
    for (auto element : array) {
      json::value value;
      if (std::move(element).get(value) != simdjson::SUCCESS) break;
      JsonValue wrapped(&value);
      if (!read(wrapped)) break;
      ++n;
    }
    return n;
  }
};

JsonElements::JsonElements() : parser_(std::make_unique<Parser>()) {}
JsonElements::~JsonElements() = default;

void JsonElements::read(const JsonWindow& window, const JsonValue::VisitElement& read,
                        const std::function<void()>& damaged) {
  read_window(
      window, parser_->alone, [&](std::string_view text) { return parser_->read_all(text, read); },
      damaged);
}

}  // namespace foregather::traces
