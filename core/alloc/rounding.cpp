#include "core/alloc/rounding.h"

#include <algorithm>

namespace foregather::alloc {

Rounding::Rounding(const AllocConfig& config)
    : divisions_(config.roundup_power2_divisions),
      large_segment_(config.large_segment_size),
      divided_(std::any_of(divisions_.begin(), divisions_.end(),
                           [](std::uint32_t divisions) { return divisions > 1; })) {}

Bytes Rounding::divided_size(Bytes requested) const {
  constexpr int kFirstSlot = 20;  // log2 of 1 MiB
  const int log2 = 63 - std::countl_zero(static_cast<std::uint64_t>(requested));
  const auto slot = static_cast<std::size_t>(std::clamp(log2 - kFirstSlot, 0, 15));
  const std::uint32_t divisions = divisions_[slot];
  if (divisions > 1 && requested > kMinBlockSize * divisions) {
    return round_to_division(requested, divisions);
  }
  return round_up(requested, kMinBlockSize);
}

Bytes round_to_division(Bytes size, std::uint32_t divisions) {
  const auto bits = static_cast<std::uint64_t>(size);
  if (std::has_single_bit(bits)) return size;
  const auto floor = static_cast<Bytes>(std::bit_floor(bits));
  const Bytes step = floor / divisions;
  return step == 0 ? 2 * floor : round_up(size, step);
}

}  // namespace foregather::alloc
