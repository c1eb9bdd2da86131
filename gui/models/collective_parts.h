// A collective's time, divided.
#pragma once

#include <vector>

#include "gui/models/session.h"

namespace foregather::gui {

enum class CommPart : std::uint8_t {
  wait,     ///< for the last rank to arrive
  hidden,   ///< transfer while the rank computed
  exposed,  ///< transfer while it did not
};

struct CommSpan {
  CommPart part = CommPart::wait;
  TimeRange range;  ///< on the axis
};

/// The parts of a collective of that rank in order of time; they add up to the op. Empty for other
/// ops. Same rule as compare::busy_times(). Logarithmic, and linear in the parts.
std::vector<CommSpan> collective_parts(const Session& session, std::size_t side,
                                       const RankStep& rank, run::OpRow op);

}  // namespace foregather::gui
