// The files that the points of a grid read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tasks/sweep_grid.h"

namespace foregather::tasks {

/// SOURCE, and the files of models, machines and foreign configurations that it, --set and the axes
/// name, whichever of them go together. Each once. What cannot be read is left to the points that
/// ask for it.
std::vector<std::string> input_files(const GridRequest& request, const SweepAxes& axes,
                                     const std::optional<std::string>& text);

}  // namespace foregather::tasks
