// What the host did in a recording, as rows of a run: what a replay of the run needs.
#pragma once

#include <functional>
#include <vector>

#include "core/rebuild/operators.h"
#include "core/run/recording.h"
#include "core/run/run.h"

namespace foregather::rebuild {

/// Threads, calls and waits of one recording.
class HostRows {
 public:
  /// Adds the threads and all calls. `origin` is time 0 of the run on the recording's clock. The
  /// recording must outlive this.
  HostRows(const run::Recording& recording, run::ClassRow rank_class, Ns origin, run::Run& run);

  /// Adds the named ranges, as calls.
  void add_ranges(run::ClassRow rank_class, Ns origin, run::Run& run);
  /// The call that launched an activity; absent: not recorded.
  run::HostCallRow launch(run::ActivityRow row) const;
  /// What the recording says of a collective, if anything.
  void add_collective(run::OpRow op, run::CollectiveRow row, run::Run& run) const;
  /// What the recording says of the kernel of an op, if anything.
  void add_kernel(run::OpRow op, run::ActivityRow row, run::Run& run);
  /// Adds the waits of streams for events. `stream` is the run's row of a lane.
  void add_waits(const std::function<run::StreamRow(run::LaneRow)>& stream, run::Run& run) const;

 private:
  template <class Columns>
  void add(const Columns& rows, run::ClassRow rank_class, Ns origin, run::Run& run);
  run::HostCallRow call(run::CorrelationId id) const;
  StringId text(StringId id, run::Run& run);

  const run::Recording& recording_;
  std::size_t first_call_;               // of the recording, in the run
  std::vector<run::CallRow> calls_;      // by correlation
  std::vector<run::ThreadRow> threads_;  // by lane
  Operators operators_;
  std::vector<StringId> texts_;  // of the run, by those of the recording
};

}  // namespace foregather::rebuild
