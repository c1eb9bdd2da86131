#include "core/plan/config_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/file.h"
#include "core/base/json_text.h"
#include "core/base/units.h"

namespace foregather::plan {

namespace {

using Json = nlohmann::json;

constexpr Bytes kLongestConfig = 1 * MiB;

/// Offset of the last `key` of the object whose '{' is at `begin` of valid JSON, and of its value.
struct KeyPlace {
  std::size_t key = std::string_view::npos;
  std::size_t value = std::string_view::npos;
};

KeyPlace find_key(std::string_view text, std::size_t begin, std::string_view key) {
  KeyPlace found;
  int depth = 0;
  for (std::size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (depth == 0 && i > begin) break;
    if (c != '"') continue;
    const std::size_t open = i;
    for (++i; text[i] != '"'; ++i)
      if (text[i] == '\\') ++i;
    if (depth != 1 || text.substr(open + 1, i - open - 1) != key) continue;
    const std::size_t next = text.find_first_not_of(" \t\r\n", i + 1);
    if (text[next] == ':') found = {open, text.find_first_not_of(" \t\r\n", next + 1)};
  }
  return found;
}

/// What nlohmann says after "line N, column N: ", without what it read last (which may be long or
/// not text).
std::string parse_problem(std::string_view what) {
  const std::size_t column = what.find("column");
  const std::size_t colon = what.find(": ", column == std::string_view::npos ? 0 : column);
  std::string problem(colon == std::string_view::npos ? what : what.substr(colon + 2));
  const std::size_t last_read = problem.find("; last read:");
  if (last_read != std::string::npos) {
    const std::size_t rest = problem.rfind("; expected");
    const bool has_rest = rest != std::string::npos && rest > last_read;
    problem = problem.substr(0, last_read) + (has_rest ? problem.substr(rest) : "");
  }
  return problem;
}

std::string shown_value(const Json& value) {
  constexpr std::size_t kLongest = 40;
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "…";
  return text;
}

std::string_view next_word(std::string_view& words) {
  const std::size_t end = words.find(' ');
  const std::string_view word = words.substr(0, end);
  words.remove_prefix(end == std::string_view::npos ? words.size() : end + 1);
  return word;
}

}  // namespace

struct ConfigFile::Document {
  std::string path;
  std::string text;
  Json json = Json::object();
  std::vector<ModelKey> keys;  ///< of [model]; they win
  std::optional<Error> error;

  const Json* at(const std::string& pointer, std::string_view key) const {
    const Json::json_pointer where(pointer);
    if (!json.contains(where)) return nullptr;
    const Json& object = json.at(where);
    const auto found = object.is_object() ? object.find(key) : object.end();
    return found == object.end() ? nullptr : &*found;
  }

  std::string place(const std::string& prefix, std::string_view key) const {
    if (prefix.empty())
      for (const ModelKey& own : keys)
        if (own.name == key) return own.place;
    if (text.empty()) return path;
    std::size_t begin = text.find('{');
    std::size_t offset = begin;
    std::string_view rest = prefix;
    while (!rest.empty()) {
      const std::size_t dot = rest.find('.');
      const KeyPlace section = find_key(text, begin, rest.substr(0, dot));
      if (section.key == std::string_view::npos) break;
      offset = section.key;
      begin = section.value;
      rest.remove_prefix(dot + 1);
    }
    const KeyPlace found = find_key(text, begin, key);
    if (found.key != std::string_view::npos) offset = found.key;
    return place_in_text(path, text,
                         prefix.empty() && found.key == std::string_view::npos ? 0 : offset);
  }
};

Result<ConfigFile> ConfigFile::read(const std::string& path) {
  Result<std::string> text = read_file(path, kLongestConfig);
  if (!text) return tl::unexpected(text.error());
  ConfigFile file;
  file.document_ = std::make_shared<Document>();
  Document& document = *file.document_;
  document.path = path;
  document.text = std::move(*text);
  try {
    document.json = Json::parse(document.text);
  } catch (const Json::parse_error& error) {
    const std::size_t offset = error.byte > 0 ? error.byte - 1 : 0;
    return fail_at(place_in_text(path, document.text, offset),
                   "not valid JSON: {}; expected a Hugging Face config.json",
                   parse_problem(error.what()));
  } catch (const Json::exception& error) {  // numbers beyond double
    return fail_at(path + ":1:1", "not valid JSON: {}; expected a Hugging Face config.json",
                   parse_problem(error.what()));
  }
  if (const Status unique = check_unique_keys(document.text, path); !unique)
    return tl::unexpected(unique.error());
  if (!document.json.is_object())
    return fail_at(path + ":1:1",
                   "this is a JSON {}, expected the object of a Hugging Face "
                   "config.json",
                   document.json.type_name());
  return file;
}

void ConfigFile::override_with(std::span<const ModelKey> keys) {
  for (const ModelKey& key : keys) {
    document_->keys.push_back(key);
    Json value = Json::parse(key.json, nullptr, false);
    document_->json[key.name] = value.is_discarded() ? Json(key.json) : std::move(value);
  }
}

ConfigFile ConfigFile::of_keys(const std::string& path, std::span<const ModelKey> keys) {
  ConfigFile file;
  file.document_ = std::make_shared<Document>();
  file.document_->path = path;
  file.override_with(keys);
  return file;
}

ConfigFile ConfigFile::section(std::string_view key) const {
  ConfigFile inner = *this;
  if (has(key) && !is_object(key))
    complain(key, fmt::format("'{}' is {}, expected an object", label(key), shown(key)));
  inner.pointer_ += "/" + std::string(key);
  inner.prefix_ += std::string(key) + ".";
  return inner;
}

const std::optional<Error>& ConfigFile::error() const { return document_->error; }

void ConfigFile::complain(std::string_view keys, std::string message) const {
  if (document_->error) return;
  document_->error = Error{place(keys), std::move(message), Fault::input};
}

std::string ConfigFile::place(std::string_view keys) const {
  return document_->place(prefix_, spelling(keys));
}

// What [model] says goes over the document, also where that spells it otherwise.
std::string_view ConfigFile::spelling(std::string_view keys) const {
  if (prefix_.empty() && keys.find(' ') != std::string_view::npos && !document_->keys.empty())
    for (std::string_view words = keys; !words.empty();) {
      const std::string_view word = next_word(words);
      for (const ModelKey& own : document_->keys)
        if (own.name == word) return word;
    }
  std::string_view rest = keys;
  const std::string_view first = next_word(rest);
  for (std::string_view word = first;; word = next_word(rest)) {
    const Json* value = document_->at(pointer_, word);
    if (value != nullptr && !value->is_null()) return word;
    if (rest.empty()) return first;
  }
}

bool ConfigFile::has(std::string_view keys) const {
  const Json* value = document_->at(pointer_, spelling(keys));
  return value != nullptr && !value->is_null();
}

bool ConfigFile::has_null(std::string_view key) const {
  const Json* value = document_->at(pointer_, key);
  return value != nullptr && value->is_null();
}

bool ConfigFile::is_object(std::string_view key) const {
  const Json* value = document_->at(pointer_, key);
  return value != nullptr && value->is_object();
}

std::string ConfigFile::label(std::string_view keys) const {
  return prefix_ + std::string(spelling(keys));
}

std::string ConfigFile::shown(std::string_view keys) const {
  const Json* value = document_->at(pointer_, spelling(keys));
  return value == nullptr ? "missing" : shown_value(*value);
}

std::int64_t ConfigFile::size(std::string_view keys, std::int64_t most,
                              std::optional<std::int64_t> fallback, std::int64_t least) const {
  const std::string_view key = spelling(keys);
  if (!has(key)) {
    if (!fallback)
      complain(key, fmt::format("'{}' is missing, expected an integer of {} to {}", label(key),
                                least, most));
    return fallback.value_or(least);
  }
  const Json& value = *document_->at(pointer_, key);
  // Unsigned first: what exceeds int64 must not wrap to a small or negative number.
  const bool fits = value.is_number_unsigned()
                        ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(most)
                        : value.is_number_integer();
  if (fits && value.get<std::int64_t>() >= least) return value.get<std::int64_t>();
  complain(key, fmt::format("'{}' is {}, expected an integer of {} to {}", label(key),
                            shown_value(value), least, most));
  return least;
}

bool ConfigFile::flag(std::string_view keys, bool fallback) const {
  if (!has(keys)) return fallback;
  const Json& value = *document_->at(pointer_, spelling(keys));
  if (value.is_boolean()) return value.get<bool>();
  complain(spelling(keys),
           fmt::format("'{}' is {}, expected true or false", label(keys), shown_value(value)));
  return fallback;
}

double ConfigFile::rate(std::string_view keys, double fallback) const {
  if (!has(keys)) return fallback;
  const Json& value = *document_->at(pointer_, spelling(keys));
  if (value.is_number() && value.get<double>() >= 0 && value.get<double>() < 1)
    return value.get<double>();
  complain(spelling(keys), fmt::format("'{}' is {}, expected a rate from 0 to below 1", label(keys),
                                       shown_value(value)));
  return fallback;
}

double ConfigFile::number(std::string_view keys, double least, double most, double fallback) const {
  if (!has(keys)) return fallback;
  const Json& value = *document_->at(pointer_, spelling(keys));
  if (value.is_number() && value.get<double>() >= least && value.get<double>() <= most)
    return value.get<double>();
  complain(spelling(keys), fmt::format("'{}' is {}, expected a number from {} to {}", label(keys),
                                       shown_value(value), least, most));
  return fallback;
}

std::string ConfigFile::text(std::string_view keys, std::string_view fallback) const {
  if (!has(keys)) return std::string(fallback);
  const Json& value = *document_->at(pointer_, spelling(keys));
  if (value.is_string()) return value.get<std::string>();
  complain(spelling(keys),
           fmt::format("'{}' is {}, expected a string", label(keys), shown_value(value)));
  return std::string(fallback);
}

std::optional<std::string> ConfigFile::first_text(std::string_view key) const {
  if (!has(key)) return std::nullopt;
  const Json& value = *document_->at(pointer_, key);
  if (value.is_array() && !value.empty() && value.front().is_string())
    return value.front().get<std::string>();
  complain(key, fmt::format("'{}' is {}, expected a list with the name of a model class",
                            label(key), shown_value(value)));
  return std::nullopt;
}

std::vector<std::string> ConfigFile::texts(std::string_view key) const {
  if (!has(key)) return {};
  const Json& value = *document_->at(pointer_, key);
  const bool is_list =
      value.is_array() &&
      std::all_of(value.begin(), value.end(), [](const Json& each) { return each.is_string(); });
  if (is_list) return value.get<std::vector<std::string>>();
  complain(key,
           fmt::format("'{}' is {}, expected a list of strings", label(key), shown_value(value)));
  return {};
}

std::int64_t ConfigFile::first_size(std::string_view key, std::int64_t most,
                                    std::optional<std::int64_t> fallback) const {
  const Json* value = document_->at(pointer_, key);
  if (value == nullptr || !value->is_array()) return size(key, most, fallback);
  if (!value->empty() && value->front().is_number_unsigned() &&
      value->front().get<std::uint64_t>() >= 1 &&
      value->front().get<std::uint64_t>() <= static_cast<std::uint64_t>(most))
    return value->front().get<std::int64_t>();
  complain(key,
           fmt::format("'{}' is a list, expected one of integers of 1 to {}", label(key), most));
  return 1;
}

std::optional<std::int64_t> ConfigFile::members(std::string_view key) const {
  if (!is_object(key)) return std::nullopt;
  return static_cast<std::int64_t>(document_->at(pointer_, key)->size());
}

std::vector<std::int64_t> ConfigFile::sizes(std::string_view key) const {
  if (!has(key)) return {};
  const Json& value = *document_->at(pointer_, key);
  constexpr std::uint64_t kMost = 1 << 24;
  const bool is_list =
      value.is_array() && std::all_of(value.begin(), value.end(), [](const Json& each) {
        return each.is_number_unsigned() && each.get<std::uint64_t>() <= kMost;
      });
  if (is_list) return value.get<std::vector<std::int64_t>>();
  complain(key, fmt::format("'{}' is {}, expected a list of integers from 0", label(key),
                            shown_value(value)));
  return {};
}

std::string shown_text(std::string_view text) { return shown_value(Json(std::string(text))); }

}  // namespace foregather::plan
