// A streaming JSON writer: fields come out in the order they were written, so that the same figures
// give the same bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace foregather {

/// Writes one JSON value, indented by two spaces. Calls must nest: key() before each value inside
/// an object. Non-finite numbers become null.
class JsonWriter {
 public:
  JsonWriter& begin_object();
  JsonWriter& end_object();
  JsonWriter& begin_array();
  JsonWriter& end_array();
  JsonWriter& key(std::string_view name);

  JsonWriter& value(std::int64_t number);
  JsonWriter& value(int number) { return value(static_cast<std::int64_t>(number)); }
  JsonWriter& value(std::size_t number) { return value(static_cast<std::int64_t>(number)); }
  JsonWriter& value(double number);
  JsonWriter& value(bool flag);
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& null();
  /// A value that is JSON text already.
  JsonWriter& raw(std::string_view json);

  template <class T>
  JsonWriter& field(std::string_view name, const T& content) {
    return key(name).value(content);
  }

  /// The text so far; complete once every begin has its end.
  const std::string& text() const { return out_; }

 private:
  void separate();
  void open(char bracket);
  void close(char bracket);

  std::string out_;
  std::vector<bool> has_items_;
  bool after_key_ = false;
};

/// `text` with quotes, escaped for JSON. Bytes that are not UTF-8 become U+FFFD.
std::string json_quote(std::string_view text);

}  // namespace foregather
