// The state at the start of a recorded window, from the state at its end.
#pragma once

#include "core/alloc/recording.h"
#include "core/base/result.h"

namespace foregather::alloc {

struct StartState {
  /// Ready for CachingAllocator::restore. A block that waits for events waits for a stream of its
  /// own, numbered from Recording::streams.size().
  Layout layout;
  /// Live blocks whose size may be greater than known, by at most `upper_slack` bytes in all: freed
  /// in the window, with free memory behind them from before the window to its end.
  std::size_t ambiguous_blocks = 0;
  Bytes upper_slack = 0;
};

/// Undoes the events from the last to the first.
///
/// Events tell requested sizes only; the size of a block with rounding follows from the
/// configuration. What a block of the large pool keeps because its rest was not worth splitting off
/// (at most 1 MiB) follows from a fact: outside expandable segments no block of that pool is
/// smaller than 1 MiB + 512, so a smaller piece beside a block must be part of it. Expandable
/// segments, which a snapshot shows as mapped ranges, are put together by stream and pool; the
/// lowest address ever mapped is taken for their base.
///
/// Cost: a few searches in ordered maps for each event. Errors (without a place): events that do
/// not fit the state that they should lead to.
Result<StartState> rewind(const Recording& recording);

}  // namespace foregather::alloc
