// What a step time means.
#pragma once

#include <optional>

#include "core/ir/graph.h"
#include "sim/cost/hardware.h"

namespace foregather::tasks {

/// Of one GPU, rounded to hundredths, so that it reads well and is exact. Absent: not a language
/// model.
std::optional<double> tokens_per_second(const Graph& graph, Ns step);

/// Model FLOPs over what the dense bf16 units could do (fp16 where there are none) on a device that
/// is `compute_scale` times as fast. Absent: not known, or more than all of it, which only a
/// what-if does that makes some of the work faster than the device.
std::optional<double> mfu(const Graph& graph, const sim::Hardware& hardware, Ns step,
                          double compute_scale = 1);

}  // namespace foregather::tasks
