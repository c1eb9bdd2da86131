// What the end of a step waited for, all the way back to its begin.
#pragma once

#include <vector>

#include "core/run/run.h"

namespace foregather::compare {

/// One op on the critical path.
struct PathStep {
  run::OpRow op;
  Ns time = 0;    ///< that the op itself adds to the step
  Ns gap = 0;     ///< between what bound it and the op: the host's time if `reason` is host
  Ns beside = 0;  ///< of such a gap: while the op's device still had work
  run::BoundReason reason = run::BoundReason::start;
};

struct CriticalPath {
  std::vector<PathStep> steps;  ///< in order of time
  Ns host = 0;   ///< gaps that the host's launches explain, as far as the device had nothing to do
  Ns other = 0;  ///< all other gaps (work of the step before, waits for other ranks)
  Ns compute = 0, comm = 0;  ///< of the ops on the path, and:
  /// Parts of these: what the device did while the host was still on its way to the next op.
  Ns beside_compute = 0, beside_comm = 0;

  /// The steps that add most, with their gaps, the earlier first of equals.
  std::vector<PathStep> longest(std::size_t most) const;
};

/// Walks `bound_by` back from the op that ends the step last; among several the one added last.
/// Times and gaps add up to the step's time from `begin` on, and so do the sums. Linear in the
/// length of the path, and n log n in the ops of the steps that it passes.
CriticalPath critical_path(run::RunView run, run::StepRow step, Ns begin);
/// From the begin that its run says.
CriticalPath critical_path(run::RunView run, run::StepRow step);

}  // namespace foregather::compare
