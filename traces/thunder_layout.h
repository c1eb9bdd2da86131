// Where a tensor's elements are in its storage: which results are views, and which copies.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "traces/thunder_call.h"
#include "traces/thunder_symbols.h"

namespace foregather::traces {

/// Sizes and strides in elements. An opaque one is a view whose strides are not known.
struct ThunderLayout {
  std::vector<std::int64_t> dims, strides;
  std::int64_t offset = 0;
  bool is_opaque = false;

  /// In C order without holes.
  static ThunderLayout dense(std::vector<std::int64_t> dims);
  bool is_dense() const;
};

/// The layout of a result of a view operation: of `dims`, the part that begins at `start` along the
/// dimension of a split. Nothing: PyTorch would copy (a reshape that no strides express,
/// contiguous() of what is not).
std::optional<ThunderLayout> view_of(const ThunderLayout& from, ThunderShape shape,
                                     const ThunderCall& call, std::vector<std::int64_t> dims,
                                     std::int64_t start);

}  // namespace foregather::traces
