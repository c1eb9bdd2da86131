#include "core/base/strings.h"

namespace foregather {

StringTable::StringTable(const StringTable& other) {
  for (const std::string& text : other.texts_) intern(text);
}

StringTable& StringTable::operator=(const StringTable& other) {
  if (this != &other) *this = StringTable(other);
  return *this;
}

StringId StringTable::intern(std::string_view text) {
  if (auto found = ids_.find(text); found != ids_.end()) return found->second;
  const StringId id(texts_.size());
  texts_.emplace_back(text);
  ids_.emplace(texts_.back(), id);
  return id;
}

std::string_view StringTable::text(StringId id) const {
  return id ? std::string_view(texts_[id.row()]) : std::string_view();
}

}  // namespace foregather
