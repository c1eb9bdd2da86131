// Interned strings: names are compared and stored as 4-byte ids.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "core/base/ids.h"

namespace foregather {

using StringId = Id<struct StringTag>;

/// Append-only set of strings, kept in few pieces of memory. Ids are dense and in order of first
/// insertion; views stay valid for the table's life. Not thread safe.
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
  std::string_view keep(std::string_view text);
  void grow();

  std::vector<std::string_view> texts_;
  std::vector<std::uint32_t> hashes_;  ///< of the texts
  /// Open addressing: rows + 1 at where their hashes say, or after; a power of two, half empty.
  std::vector<std::uint32_t> slots_;
  std::vector<std::unique_ptr<char[]>> pages_;  ///< of many texts each
  std::size_t used_ = 0;                        ///< of the last page
  std::vector<std::unique_ptr<char[]>> long_texts_;
};

}  // namespace foregather
