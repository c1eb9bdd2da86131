// Which operator of the framework launched which device work.
#pragma once

#include <cstdint>
#include <vector>

#include "core/run/recording.h"

namespace foregather::rebuild {

/// The innermost operator around the launch of each activity that says something of the work: with
/// shapes, or with a collective. The recording must outlive this. n log n.
class Operators {
 public:
  explicit Operators(const run::Recording& recording);

  /// Absent: none.
  run::RangeRow range(std::size_t activity) const { return of_[activity]; }
  /// Its shapes and whether they are of this activity alone; of a run's rows what these say.
  run::KnownOperator call(std::size_t activity) const;

 private:
  struct Launch {
    run::LaneRow lane;
    Ns time = 0;
    std::size_t activity = 0;
  };

  run::LaneRow lane_of(run::RangeRow range) const { return recording_.ranges.lane[range.row()]; }
  Ns start_of(run::RangeRow range) const { return recording_.ranges.start[range.row()]; }
  Ns end_of(run::RangeRow range) const { return recording_.ranges.end[range.row()]; }
  void close(std::vector<run::RangeRow>& open, Ns time) const;
  std::vector<run::RangeRow> speaking_ranges() const;
  std::vector<Launch> launches_by_time() const;
  void add_external(const std::vector<run::RangeRow>& ranges);

  const run::Recording& recording_;
  std::vector<run::RangeRow> of_;        ///< by activity
  std::vector<std::uint32_t> launched_;  ///< by range: of how many activities it is the operator
};

}  // namespace foregather::rebuild
