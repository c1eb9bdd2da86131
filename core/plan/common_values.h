// Equal values of a tape that a compiler makes once.
#pragma once

#include <cstdint>
#include <optional>

#include "core/plan/tape.h"

namespace foregather::plan {

/// Ops of a tape: all, those of a scope, or all but these.
struct TapePart {
  std::optional<std::uint32_t> scope;  ///< absent: all
  bool is_rest = false;
  bool has(const TapeOp& op) const { return !scope || (op.scope == *scope) != is_rest; }
};

/// Drops casts, copies and reductions that make again what one before them in the same pass made of
/// the same values; who read theirs reads the first. Only scratch is shared, and of values that
/// nobody updates.
void share_common_values(Tape& tape, const TapePart& part);

}  // namespace foregather::plan
