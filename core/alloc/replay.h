// Replays a recording through the allocator and compares everything that was recorded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/alloc/recording.h"
#include "core/alloc/rewind.h"
#include "core/alloc/stats.h"
#include "core/base/result.h"

namespace foregather::alloc {

/// Where the replay first was not what was recorded.
struct Divergence {
  std::size_t event = 0;  ///< row in Recording::events
  std::string reason;
  /// Where the replay's malloc found its block, and how much of what it found was not needed;
  /// absent: it is about something else.
  std::optional<Address> found_at;
  Bytes spare = 0;
  /// First of the releases that were taken for a part of the malloc; absent: none.
  std::optional<std::size_t> release;
  /// First of the free_completed that were; absent: none.
  std::optional<std::size_t> completion;
  bool in_malloc = false;
};

/// The life of one block. Events are rows in Recording::events.
struct BlockLife {
  Address address = 0;  ///< in the replay
  Bytes requested = 0;
  Bytes size = 0;
  StreamId stream;
  std::optional<std::size_t> born;   ///< its alloc; absent: alive when the window began
  std::optional<std::size_t> freed;  ///< its free_requested; absent: alive at the end
  bool is_waiting = false;           ///< freed before the window already, and completed later
};

/// A malloc that waited for streams before it gave up or tried again: the free_completed of
/// [first, malloc) came in it.
struct WaitingMalloc {
  std::size_t first = 0;
  std::size_t malloc = 0;  ///< its alloc or oom
};

/// Bytes after an operation, whose last event is `event`.
struct CurvePoint {
  std::size_t event = 0;
  Usage usage;
};

struct Replay {
  StartState start;
  Usage at_start;
  Usage at_end;
  Usage peak;                             ///< of start and window
  std::optional<std::size_t> peak_event;  ///< after which `allocated` was largest; absent: at start

  std::size_t allocs = 0;
  std::size_t exact_addresses = 0;
  std::size_t segments_recorded = 0;
  std::size_t segments_replayed = 0;
  std::size_t segments_exact = 0;  ///< of the recorded ones, in order
  Bytes largest_reserved_error = 0;
  Bytes peak_reserved_recorded = 0;
  std::size_t blocks_recorded = 0;   ///< at the end
  std::size_t blocks_different = 0;  ///< recorded or replayed, without an equal on the other side
  std::size_t unmatched_frees = 0;   ///< of blocks that the replay does not have
  std::int64_t retries = 0;
  std::int64_t ooms = 0;
  std::vector<std::size_t> empty_caches;  ///< first events of explicit releases of the cache
  std::vector<WaitingMalloc> waiting_mallocs;
  /// Bytes that the device had for the allocator when memory ran out; absent: it never did.
  std::optional<Bytes> capacity;
  std::optional<Divergence> first_divergence;
  std::vector<BlockLife> lives;   ///< those alive at the start first, by address, then by birth
  std::vector<CurvePoint> curve;  ///< only if asked for

  /// SHA-256 over "event:address:block size\n" of every alloc, in decimal.
  std::string digest_alloc;
  /// SHA-256 over "event:reserved:active:allocated\n" after every operation.
  std::string digest_curve;

  /// Every address, every segment event in order, the reserved curve and the state at the end.
  bool exact() const { return !first_divergence.has_value(); }
};

/// Rewinds the recording and replays it.
///
/// One operation is a free_requested, a free_completed, a malloc with all its segment events, or a
/// release of all cached blocks. Segment releases in front of a malloc belong to it (the driver had
/// no memory) unless their stack names empty_cache, or the malloc would have been served from the
/// cache before: then somebody emptied the cache. A malloc that releases, or runs out of memory,
/// waits for all streams first: the free_completed in front of it belong to it, too, if they are of
/// all blocks that wait, and the cache had nothing for it before. Cost: a few hundred nanoseconds
/// an event.
///
/// Four things a recording may leave open: the size of an ambiguous block, whether releases or
/// completions in front of a malloc were its own, and when the program switched expandable segments
/// on or off.
/// They are corrected at the first difference, if the replay then agrees for longer.
///
/// An event that contradicts the state at the end is a difference, too. Errors: those of rewind().
Result<Replay> replay(const Recording& recording, bool keep_curve = false);

}  // namespace foregather::alloc
