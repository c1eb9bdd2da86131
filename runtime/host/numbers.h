// Elements of tensors in host memory: conversions, known values, and comparisons.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/ir/kinds.h"

namespace foregather::runtime {

/// Element `index` of what `seed` stands for: in (-1, 1), with more digits than bf16 keeps.
inline float known_value(std::uint64_t seed, std::uint64_t index) {
  const std::uint64_t mixed = (index + seed) * 0x9E3779B97F4A7C15ULL;
  return static_cast<float>(static_cast<std::int32_t>((mixed >> 40) & 0xffff) - 0x8000) / 0x8000;
}
std::uint64_t seed_of(std::uint64_t what, std::uint64_t rank, std::uint64_t when);

/// Fills `bytes` of elements with the known values from `first` on. Integers count up.
void fill_known(std::byte* to, Bytes bytes, DType type, std::uint64_t seed, std::uint64_t first);

/// Converts so many elements, rounding to nearest even, as the devices do. What becomes an integer
/// is cut off, and is 0 to 100 where it was none: an index, as fill_known() makes them.
void convert(std::byte* to, DType to_type, const std::byte* from, DType from_type,
             std::int64_t elements);

/// to += from, with sums in the type itself.
void add(std::byte* to, const std::byte* from, DType type, std::int64_t elements);

/// The element as a number.
double value_at(const std::byte* at, DType type, std::int64_t index);

/// Half the distance between neighbouring numbers of the type around 1: the error of one rounding,
/// relative. 0 of integers.
double rounding_error(DType type);

/// Is `converted` what convert() should have made of `from`? Row of the first element that is not;
/// -1: all are. Independent of convert(): the nearest number is no farther than half a step.
std::int64_t first_wrong(const std::byte* converted, DType to_type, const std::byte* from,
                         DType from_type, std::int64_t elements);

}  // namespace foregather::runtime
