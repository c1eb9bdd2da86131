// Times of two measured steps, kernel by kernel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/run/run.h"

namespace foregather::compare {

struct KernelChange {
  std::string name;  ///< of the kernel or copy: OpRecord::source of measured runs
  std::int64_t first_ops = 0, second_ops = 0;
  /// Sums of durations; of collectives from the arrival of all ranks on, where that is known.
  Ns first_time = 0, second_time = 0;
};

/// Every name of either step, the largest difference of times first, then by name.
std::vector<KernelChange> by_kernel(run::RunView first, run::StepRow first_step,
                                    run::RunView second, run::StepRow second_step);

}  // namespace foregather::compare
