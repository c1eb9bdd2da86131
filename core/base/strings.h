// Interned strings: names are compared and stored as 4-byte ids.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/base/ids.h"

namespace foregather {

using StringId = Id<struct StringTag>;

/// Append-only set of strings. Ids are dense and in order of first insertion; views stay valid for
/// the table's life. Not thread safe.
class StringTable {
 public:
  StringTable() = default;
  StringTable(const StringTable& other);
  StringTable& operator=(const StringTable& other);
  StringTable(StringTable&&) noexcept = default;
  StringTable& operator=(StringTable&&) noexcept = default;

  StringId intern(std::string_view text);
  /// The text of an id of this table; empty for an absent id.
  std::string_view text(StringId id) const;
  std::size_t size() const { return texts_.size(); }

 private:
  std::deque<std::string> texts_;
  std::unordered_map<std::string_view, StringId> ids_;
};

}  // namespace foregather
