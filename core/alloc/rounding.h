// Sizes: what a request becomes, what is asked from the driver, what is split.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "core/alloc/config.h"
#include "core/alloc/ids.h"

namespace foregather::alloc {

inline constexpr Bytes kMinBlockSize = 512;           ///< every block is a multiple of this
inline constexpr Bytes kSmallSize = 1 * MiB;          ///< greatest size in the small pool
inline constexpr Bytes kSmallBuffer = 2 * MiB;        ///< segment (and granule) of the small pool
inline constexpr Bytes kMinLargeAlloc = 10 * MiB;     ///< from here a request has its own segment,
inline constexpr Bytes kRoundLarge = 2 * MiB;         ///< rounded up to this
inline constexpr Bytes kMaxRequest = Bytes{1} << 60;  ///< PyTorch refuses more than 1 EiB

constexpr Bytes round_up(Bytes size, Bytes multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

constexpr Bytes round_down(Bytes size, Bytes multiple) { return size / multiple * multiple; }

constexpr PoolKind pool_kind(Bytes rounded) {
  return rounded <= kSmallSize ? PoolKind::small : PoolKind::large;
}

/// The size rules of one configuration.
class Rounding {
 public:
  explicit Rounding(const AllocConfig& config);

  /// Block size for a request of 1 … kMaxRequest bytes: a multiple of 512.
  Bytes block_size(Bytes requested) const {
    if (divided_ && requested > kMinBlockSize) [[unlikely]]
      return divided_size(requested);
    return requested < kMinBlockSize ? kMinBlockSize : (requested + 511) & ~Bytes{511};
  }

  /// Size of the segment to ask the driver for when no cached block serves a block of this size.
  Bytes segment_size(Bytes rounded) const {
    if (rounded <= kSmallSize) return kSmallBuffer;
    return rounded < kMinLargeAlloc ? large_segment_ : round_up(rounded, kRoundLarge);
  }

  /// Granule of an expandable segment.
  Bytes granule(PoolKind kind) const {
    return kind == PoolKind::small ? kSmallBuffer : large_segment_;
  }

 private:
  Bytes divided_size(Bytes requested) const;

  std::array<std::uint32_t, 16> divisions_;
  Bytes large_segment_;
  bool divided_;
};

/// `size` rounded up to one of `divisions` equal steps between two powers of two. A power of two
/// stays; `divisions` is a power of two above 1.
Bytes round_to_division(Bytes size, std::uint32_t divisions);

}  // namespace foregather::alloc
