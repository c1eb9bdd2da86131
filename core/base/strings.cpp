#include "core/base/strings.h"

#include <algorithm>
#include <functional>

namespace foregather {

StringTable::StringTable(const StringTable& other) {
  for (const std::string_view text : other.texts_) intern(text);
}

StringTable& StringTable::operator=(const StringTable& other) {
  if (this != &other) *this = StringTable(other);
  return *this;
}

StringId StringTable::intern(std::string_view text) {
  if (slots_.size() < 2 * (texts_.size() + 1)) grow();
  const auto hash = static_cast<std::uint32_t>(std::hash<std::string_view>{}(text));
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = hash & mask;
  for (; slots_[at] != 0; at = (at + 1) & mask) {
    const std::uint32_t row = slots_[at] - 1;
    if (hashes_[row] == hash && texts_[row] == text) return StringId(row);
  }
  texts_.push_back(keep(text));
  hashes_.push_back(hash);
  slots_[at] = static_cast<std::uint32_t>(texts_.size());
  return StringId(texts_.size() - 1);
}

std::string_view StringTable::text(StringId id) const {
  return id ? texts_[id.row()] : std::string_view();
}

std::string_view StringTable::keep(std::string_view text) {
  constexpr std::size_t kPage = 4096;
  if (text.empty()) return {};
  char* to = nullptr;
  if (text.size() > kPage / 4) {
    to = long_texts_.emplace_back(std::make_unique_for_overwrite<char[]>(text.size())).get();
  } else {
    if (pages_.empty() || text.size() > kPage - used_) {
      pages_.push_back(std::make_unique_for_overwrite<char[]>(kPage));
      used_ = 0;
    }
    to = pages_.back().get() + used_;
    used_ += text.size();
  }
  text.copy(to, text.size());
  return {to, text.size()};
}

void StringTable::grow() {
  slots_.assign(std::max<std::size_t>(64, 2 * slots_.size()), 0);
  const std::size_t mask = slots_.size() - 1;
  for (std::uint32_t row = 0; row < hashes_.size(); ++row) {
    std::size_t at = hashes_[row] & mask;
    while (slots_[at] != 0) at = (at + 1) & mask;
    slots_[at] = row + 1;
  }
}

}  // namespace foregather
