// What a memory snapshot holds, in counts and bytes, without a replay.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <vector>

#include "traces/snapshot.h"

namespace foregather::traces {

/// The history of one device.
struct SnapshotHistory {
  std::size_t device = 0;
  std::int64_t events = 0;
  std::array<std::int64_t, static_cast<std::size_t>(SnapshotAction::other) + 1> actions{};
  std::int64_t with_frames = 0;
  std::int64_t streams = 0;
  std::int64_t span_us = 0;  ///< from the first event to the last
  /// Completed frees of addresses that were not allocated in the history.
  std::int64_t unseen_frees = 0;
  /// Of blocks that are allocated or wait for events. Sizes of events are those asked for, of
  /// segments' blocks the whole: where they are mixed, `before` has the slack of what is left.
  Bytes before = 0;         ///< at_end less what the history adds
  Bytes at_end = 0;         ///< by the segments
  Bytes peak = 0;           ///< before + the largest sum of the history
  Bytes peak_seen = 0;      ///< of what the history allocated, alone
  Bytes peak_segments = 0;  ///< of what the history took from the driver, alone
};

struct SnapshotFacts {
  std::size_t blocks = 0;
  std::array<std::int64_t, static_cast<std::size_t>(SnapshotState::inactive) + 1> states{};
  Bytes reserved = 0, active = 0, allocated = 0;  ///< of all segments
  std::set<std::int64_t> devices;                 ///< that have segments
  std::set<std::uint64_t> streams;                ///< of segments
  bool is_expandable = false;                     ///< a segment is
  std::vector<SnapshotHistory> histories;         ///< of devices with events
};

/// Linear in events and blocks. Damaged sizes may wrap.
SnapshotFacts snapshot_facts(const Snapshot& snapshot);

/// As PyTorch writes them; `other`: "other".
std::string_view name_of(SnapshotAction action);
std::string_view name_of(SnapshotState state);

}  // namespace foregather::traces
