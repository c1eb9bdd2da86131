// Keeps an N-th of each parameter between forward and backward: FSDP2's integer reshard.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "core/base/units.h"
#include "sim/passes/rewriter.h"

namespace foregather::sim {

struct ReshardedTo {
  std::size_t gathers = 0;  ///< of the steady step's backward, over the smaller groups now
  Bytes kept = 0;           ///< between forward and backward, in all
  /// A unit, and the ranks that share it, which the group's size does not divide: nothing was done.
  std::optional<std::pair<std::string, std::size_t>> indivisible;
};

/// For every gather in the backward of what the forward gathered and freed: before the free this
/// rank's part of N is copied out, on the stream that used the parameters; the backward's casts,
/// copies and gather take that part in the place of the shards, and it is freed behind them. The
/// groups of N consecutive ranks get a communicator of their own. Not flushed.
ReshardedTo reshard_to(Rewriter& rewriter, std::uint32_t ranks);

}  // namespace foregather::sim
