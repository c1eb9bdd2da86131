// Who holds the bytes at a step's peak.
#pragma once

#include <array>

#include "core/run/run.h"

namespace foregather::compare {

inline constexpr std::size_t kRecordedCauses = static_cast<std::size_t>(Cause::unknown) + 1;

struct MemoryAtPeak {
  std::array<Bytes, kRecordedCauses> by_cause{};  ///< all 0: not known
  bool is_inferred = false;  ///< concluded from when memory was allocated and freed
  Bytes total() const;
  /// Whether it says how many bytes that cause has: of some runs only the total is known.
  bool knows(Cause cause) const;
};

/// By the causes that the run names, else by its allocations where they hold most. n log n in
/// allocations.
MemoryAtPeak memory_at_peak(run::RunView run, run::StepRow step);

/// Puts what an inferred side cannot tell apart together: shards and optimizer states as
/// `persistent`, reduced and other gradients.
void fold_as_inferred(MemoryAtPeak& memory);

}  // namespace foregather::compare
