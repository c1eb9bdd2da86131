// The candidates that no other one beats.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/run/sweep.h"
#include "sim/sweep/pareto.h"

namespace foregather::tasks {

/// Of points that fit: less step time, reserved bytes, GPUs or GPU time per token is better. Of
/// equal ones the one that was added first stays.
class PointFront {
 public:
  void add(const run::SweepPoint& point);
  /// In order of step time.
  std::vector<run::SweepPoint> points() const;

 private:
  sim::ParetoFront front_;
  std::map<std::int64_t, run::SweepPoint> points_;  ///< of the front, and a few that were
};

/// Step time against reserved bytes of the front's points, a colour for each number of GPUs.
/// Against GPUs where a source says nothing of memory.
std::string pareto_svg(const run::SweepInfo& info, const std::vector<run::SweepPoint>& front);

}  // namespace foregather::tasks
