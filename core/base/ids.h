// Typed indices into tables. An Id<Tag> is a row number; ids of different tables do not mix.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace foregather {

/// Row of one table. Default constructed it is absent ("this op belongs to no unit"); test with
/// `if (id)` before use. 4 bytes, so that rows stay small.
template <class Tag>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(std::size_t row) : row_(static_cast<std::uint32_t>(row)) {}

  constexpr explicit operator bool() const { return row_ != kAbsent; }
  constexpr std::uint32_t row() const { return row_; }

  friend constexpr auto operator<=>(Id, Id) = default;

 private:
  static constexpr std::uint32_t kAbsent = 0xffffffffU;
  std::uint32_t row_ = kAbsent;
};

}  // namespace foregather

template <class Tag>
struct std::hash<foregather::Id<Tag>> {
  std::size_t operator()(foregather::Id<Tag> id) const noexcept { return id.row(); }
};
