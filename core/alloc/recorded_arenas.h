// Which pool the mappings of expandable segments belong to: their events do not say.
#pragma once

#include <optional>
#include <vector>

#include "core/alloc/recording.h"

namespace foregather::alloc {

/// The kind of pool of every segment_map and segment_unmap of a recording.
///
/// A mapping is made for the malloc that follows it, whose size says which pool it is. An unmapping
/// that is no whole number of the large pool's granules is of the small pool; another one has the
/// kind of what was mapped, handed out or given back there before; else that of the release in
/// front of it, because the large pool is released before the small one; else it is large.
/// Addresses may serve one pool after another. Cost: a search in an ordered map for each event of a
/// recording that has such events.
class RecordedArenas {
 public:
  explicit RecordedArenas(const Recording& recording);

  /// Of an event of those two actions.
  PoolKind kind(std::size_t event) const { return kinds_[event].value_or(PoolKind::large); }

 private:
  void find_in_order(const Recording& recording);
  void guess(const Recording& recording);

  std::vector<std::optional<PoolKind>> kinds_;  ///< by event; empty: no such events
};

}  // namespace foregather::alloc
