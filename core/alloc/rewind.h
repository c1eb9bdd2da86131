// The state at the start of a recorded window, from the state at its end.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/alloc/recording.h"
#include "core/base/result.h"

namespace foregather::alloc {

/// A live block at the start whose size may be greater than known: freed in the window, with free
/// memory behind it from before the window to its end.
struct AmbiguousBlock {
  Address address = 0;
  Bytes upper_slack = 0;  ///< at most this much more
};

/// An event that does not fit the state that it should lead to.
struct Contradiction {
  std::size_t event = 0;  ///< row in Recording::events
  std::string reason;
};

struct StartState {
  /// Ready for CachingAllocator::restore. A block that waits for events waits for a stream of its
  /// own, numbered from Recording::streams.size().
  Layout layout;
  std::vector<AmbiguousBlock> ambiguous;  ///< taken to be as small as they can be

  /// The last event that could not be undone, and was left out; absent: none. Earlier ones may
  /// follow from it.
  std::optional<Contradiction> contradiction;

  Bytes upper_slack() const;
  /// Makes an ambiguous block greater. `more` is a multiple of 512 and at most its upper slack.
  void give_slack(AmbiguousBlock& block, Bytes more);
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
/// Cost: a few searches in ordered maps for each event. Errors (without a place): segments at the
/// end that overlap or that their blocks do not fill.
Result<StartState> rewind(const Recording& recording);

}  // namespace foregather::alloc
