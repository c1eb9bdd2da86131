// The files that the points of a grid read.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tasks/sweep_grid.h"

namespace foregather::tasks {

/// SOURCE, and the files of models, machines and foreign configurations that it, --set and the axes
/// name, whichever of them go together. Each once. What cannot be read is left to the points that
/// ask for it.
std::vector<std::string> input_files(const GridRequest& request, const SweepAxes& axes,
                                     const std::optional<std::string>& text);

/// Regular files but `known` with digests of what they hold: SHA-256; of more than 64 MiB that of
/// the length, the first 32 MiB and the last.
std::vector<std::pair<std::string, std::string>> digests_of(const std::vector<std::string>& files,
                                                            const std::string& known);

}  // namespace foregather::tasks
