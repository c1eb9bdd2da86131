// Which ops of a run waited for which: the arrows of a timeline.
#pragma once

#include <optional>
#include <vector>

#include "core/run/run.h"

namespace foregather::run {

/// From one op to a later one. The times lie in their slices, the first not behind the second.
struct Arrow {
  OpRow from, to;
  Ns from_time = 0, to_time = 0;
};

/// From the op of another stream that held this one back (OpRecord::bound_by). A collective that
/// waited for the last rank is reached when that one arrived. Nothing for an op that began before
/// what held it back, as differing clocks have it.
std::optional<Arrow> wait_arrow(RunView run, OpRow to);

/// Joins each gather to the first op that needs what it gathered: the next op of its unit that
/// copies out or computes and begins behind it. None where wait_arrow() joins the two.
class GatherArrows {
 public:
  explicit GatherArrows(RunView run) : run_(run), gathers_(run.strings.size()) {}
  /// Ops of one class, in order of their rows.
  std::optional<Arrow> to(OpRow row);

 private:
  RunView run_;
  std::vector<OpRow> gathers_;  // by unit, not used yet
};

}  // namespace foregather::run
