// The rate limiter of gathers, for passes that change what it counts.
#pragma once

#include <cstddef>
#include <optional>

#include "sim/passes/rewriter.h"

namespace foregather::sim {

/// Figures of the steady step.
struct LimitedGathers {
  std::size_t gathers = 0;
  std::size_t frees = 0;    ///< of gathered parameters, each of which joins the queue
  std::size_t waits = 0;    ///< of the host, now
  std::size_t changed = 0;  ///< waits that came, went or changed
};

/// Plays FSDP1's queue of free-events through the steps and edits the host's waits before gathers
/// to what it says, not flushed. `most`: events in the queue from which on a gather waits for the
/// oldest; nothing: no gather waits. An unshard that finds its parameters in place takes part where
/// the host waits for an event of the queue, or for one that nothing records: `leaves_takes` puts
/// the second in the place of the first, for a later call.
LimitedGathers limit_all_gathers(Rewriter& rewriter, std::optional<std::size_t> most,
                                 bool leaves_takes = false);

}  // namespace foregather::sim
