// Slices that overlap in time, spread over lanes on which none do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/units.h"

namespace foregather {

/// [begin, end) of a group: a stream, a host. An empty one takes part: it lies at its begin.
struct LaneSlice {
  std::uint32_t group = 0;
  Ns begin = 0, end = 0;
};

struct Lanes {
  std::vector<std::uint32_t> lane;   ///< by slice, from 0 in its group
  std::vector<std::uint32_t> count;  ///< by group, at least 1
};

/// First fit: in order of begin, end and row each slice takes the lowest lane of its group whose
/// last slice has ended. Viewers drop slices that overlap on one track without nesting (Perfetto
/// issue 4280). n log n.
Lanes lay_out_lanes(std::span<const LaneSlice> slices, std::size_t groups);

}  // namespace foregather
