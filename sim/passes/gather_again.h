// Gathers parameters again in the backward, where they have lived since the forward.
#pragma once

#include <cstddef>

#include "core/base/units.h"
#include "sim/passes/rewriter.h"

namespace foregather::sim {

struct GatheredAgain {
  std::size_t gathers = 0;  ///< new ones of the steady step
  Bytes bytes = 0;          ///< that they gather
  std::size_t forward = 0;  ///< gathers of its forward, new or not in need of one
};

/// For every gather of the forward whose parameters a later phase reads: frees them behind the last
/// use before, and gathers them again, with copies of what fills and empties the gather and its
/// delays of the host, right before the first use in the backward. Parameters that are freed keep
/// their storage and that place; released ones get a storage of their own, freed behind the last
/// use. New ops are of the backward. What only one of the first and the steady step could do, and
/// gathers whose parameters outlive the step, are left. Not flushed.
GatheredAgain gather_again(Rewriter& rewriter);

}  // namespace foregather::sim
