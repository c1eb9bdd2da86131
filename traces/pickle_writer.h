// A streaming writer of pickles, protocol 4.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace foregather::traces {

/// Writes one value of None, booleans, numbers, texts, lists, tuples of two and dicts. Calls must
/// nest: key() before each value inside a dict. Texts are written once and referred to afterwards.
/// Opcodes are those that Python's own pickler uses for the same values, without frames, which are
/// optional.
class PickleWriter {
 public:
  PickleWriter();

  PickleWriter& begin_dict();
  PickleWriter& end_dict();
  PickleWriter& begin_list();
  PickleWriter& end_list();
  PickleWriter& key(std::string_view name) { return value(name); }

  PickleWriter& value(std::string_view text);
  PickleWriter& value(const char* text) { return value(std::string_view(text)); }
  PickleWriter& value(std::int64_t number);
  PickleWriter& value(int number) { return value(std::int64_t{number}); }
  PickleWriter& value(std::uint64_t number);
  PickleWriter& value(double number);
  PickleWriter& value(bool flag);
  PickleWriter& pair(std::int64_t first, std::int64_t second);

  template <class T>
  PickleWriter& field(std::string_view name, const T& content) {
    return key(name).value(content);
  }

  /// The text since the last take; the value is complete after finish().
  std::string take();
  std::size_t size() const { return out_.size(); }
  void finish();

 private:
  void begin_item();
  void bytes(std::uint64_t number, std::size_t count);

  struct Level {
    bool is_dict = false;
    std::size_t values = 0;  ///< since the last mark; keys count
  };
  std::string out_;
  std::vector<Level> levels_;
  std::unordered_map<std::string, std::uint32_t> memo_;
  std::uint32_t next_memo_ = 0;
};

}  // namespace foregather::traces
