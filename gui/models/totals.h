// What a range of time holds.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "gui/models/lanes.h"
#include "gui/models/memory.h"

namespace foregather::gui {

/// Of one lane, on each side.
struct LaneTotals {
  std::size_t lane = 0;
  std::array<std::int64_t, 2> spans{};  ///< that lie in the range, in part or whole
  std::array<Ns, 2> busy{};             ///< of overlapping tracks their sum
};

/// Of one rank of one run. Parts of ops that reach beyond the range do not count, nor do the bytes
/// that are sent in them.
/// Over a whole step the times are those of compare::busy_times().
struct RankTotals {
  std::int64_t ops = 0;
  Ns compute = 0, comm = 0, exposed = 0, wait = 0;
  Ns hidden() const { return comm - exposed; }
  Bytes wire_bytes = 0;
  std::optional<std::pair<Ns, Bytes>> peak;  ///< of allocated memory: when on the axis, how much
};

struct RangeTotals {
  TimeRange range;
  std::vector<LaneTotals> lanes;  ///< those asked for, in order
  struct Pair {
    std::size_t pair = 0;
    std::array<std::optional<RankTotals>, 2> sides;
  };
  std::vector<Pair> pairs;  ///< that these lanes belong to
};

using PairMemory = std::array<std::optional<RankMemory>, 2>;

/// Linear in the ops of the pairs' steps.
RangeTotals range_totals(const Session& session, const std::vector<Lane>& lanes,
                         const std::vector<PairMemory>& memory,
                         const std::vector<std::size_t>& selected, TimeRange range);

}  // namespace foregather::gui
