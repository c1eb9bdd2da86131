// Whose recordings are a rank's: a raw one is of one process, of which a rank may have several; one
// of Nsight Systems is of a whole node.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/run/recording.h"

namespace foregather::rebuild {

/// One recording a rank, by rank where all have one, else in order of first appearance: processes
/// of one rank are one, and so are those of a host that name no rank. A process without rank and
/// without device work beside ranks of its host (a launcher) goes to the lowest of them. Times are
/// those of the first of its parts. A recording of another tool that names no rank is
/// split_processes(); others stay as they are.
std::vector<std::shared_ptr<const run::Recording>> one_a_rank(
    std::span<const std::shared_ptr<const run::Recording>> files);

}  // namespace foregather::rebuild
