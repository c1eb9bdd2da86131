#include "traces/nsys_strings.h"

#include <array>

namespace foregather::traces {

Result<NsysStrings> NsysStrings::read(const ForeignDatabase& database) {
  NsysStrings strings;
  const ForeignTable* const table = database.table("StringIds");
  if (table == nullptr) return strings;
  constexpr std::array<std::string_view, 2> kColumns{"id", "value"};
  auto rows = database.rows(*table, kColumns);
  if (!rows) return tl::unexpected(rows.error());
  for (;;) {
    const auto row = rows->next();
    if (!row) return tl::unexpected(row.error());
    if (!*row) return strings;
    if (!rows->is_integer(0)) continue;
    const std::uint32_t id = strings.ids_.row(static_cast<std::uint64_t>(rows->integer(0)));
    if (id < strings.text_.size()) continue;
    strings.text_.push_back(strings.all_.intern(rows->text(1)));
    strings.used_.emplace_back();
  }
}

StringId NsysStrings::intern(std::int64_t id, StringTable& into,
                             std::string_view (*shorten)(std::string_view)) {
  const std::uint32_t row = ids_.row(static_cast<std::uint64_t>(id));
  if (row >= text_.size()) {
    text_.emplace_back();
    used_.emplace_back();
  }
  if (!text_[row]) {
    ++missing_;
    return {};
  }
  if (!used_[row]) used_[row] = into.intern(shorten(all_.text(text_[row])));
  return used_[row];
}

}  // namespace foregather::traces
