// Which pool a mapped range belongs to: events of expandable segments do not say.
#pragma once

#include <optional>
#include <vector>

#include "core/alloc/recording.h"

namespace foregather::alloc {

/// The addresses that expandable segments had memory at, at any time of a recording, as ranges that
/// do not touch. A range has the kind of pool of the segments shown in it at the end, else that of
/// the sizes handed out in it, else that of the nearest known range below it of the same stream,
/// else large if all its sizes are whole granules of 20 MiB.
class RecordedArenas {
 public:
  explicit RecordedArenas(const Recording& recording);

  bool empty() const { return ranges_.empty(); }
  /// Nothing outside all ranges.
  std::optional<PoolKind> kind_at(Address address) const;

 private:
  struct Range {
    Address begin;
    Address end;
    StreamId stream;
    bool in_granules = true;  ///< of the large pool
    std::optional<PoolKind> kind;
  };
  void join();
  const Range* find(Address address) const;
  Range* find(Address address);
  void take_kinds(const Recording& recording);
  void guess_kinds();

  std::vector<Range> ranges_;  ///< by address
};

}  // namespace foregather::alloc
