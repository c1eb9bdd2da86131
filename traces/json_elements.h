// The elements of a JSON array, window by window, as values that a reader walks once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "traces/json_stream.h"
#include "traces/scalar.h"

namespace foregather::traces {

/// A value under the parser's eye: ask once, before the next one is looked at. Views are valid
/// while its element is visited.
class JsonValue {
 public:
  /// Neither a number nor a text, and not absent: an array, an object, or no whole number.
  Scalar scalar();
  /// Those of scalar().
  std::optional<std::string_view> text() { return scalar().text; }
  std::optional<std::uint64_t> number() { return scalar().number; }

  using VisitElement = std::function<bool(JsonValue&)>;
  using VisitField = std::function<bool(std::string_view key, JsonValue&)>;
  /// The elements of an array, or the fields of an object (keys with escapes are ""). Both end
  /// where the visitor returns false. False: so it did, or this is none, or its text is damaged.
  bool each(const VisitElement& visit);
  bool each_field(const VisitField& visit);

 private:
  friend class JsonElements;
  explicit JsonValue(void* value) : value_(value) {}
  void* value_;
};

/// Reads the elements of windows. Keeps a parser and its buffers: make one a file.
class JsonElements {
 public:
  JsonElements();
  ~JsonElements();
  JsonElements(const JsonElements&) = delete;
  JsonElements& operator=(const JsonElements&) = delete;

  /// Every element of the window goes to `read`, in order; where that returns false, or the element
  /// cannot be parsed, to `damaged`. One that is damaged may be read twice, first in part: begin
  /// each with an empty row.
  void read(const JsonWindow& window, const JsonValue::VisitElement& read,
            const std::function<void()>& damaged);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace foregather::traces
