// Nsight Systems records a whole node into one file: several processes, each of them a rank.
#pragma once

#include <memory>
#include <vector>

#include "core/run/recording.h"

namespace foregather::rebuild {

/// A recording in which several processes work on devices, as one recording a process, in order of
/// the devices that they use most, then of their ids; any other as it is. Device work belongs to
/// the process that its record names, else to the one whose call launched it, else to the one that
/// works on its device. Processes without device work (a
/// launcher) stay with the first. Linear in the rows.
std::vector<std::shared_ptr<const run::Recording>> split_processes(
    std::shared_ptr<const run::Recording> recording);

}  // namespace foregather::rebuild
