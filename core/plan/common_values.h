// Equal values of a tape that a compiler makes once.
#pragma once

#include <cstdint>
#include <optional>

#include "core/plan/tape.h"

namespace foregather::plan {

/// Drops casts, copies and reductions that make again what one before them in the same pass made of
/// the same values; who read theirs reads the first. Only scratch is shared, and of values that
/// nobody updates. Without a scope: all of the tape.
void share_common_values(Tape& tape, std::optional<std::uint32_t> scope);

}  // namespace foregather::plan
