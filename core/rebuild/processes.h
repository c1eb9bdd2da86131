// Raw recordings are of one process each; a rank of a job may have several.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/run/recording.h"

namespace foregather::rebuild {

/// One recording a rank, in order of first appearance: processes of one rank are one, and so are
/// those of a host that name no rank. A process without rank and without device work beside ranks
/// of its host (a launcher) goes to the lowest of them. Recordings that name no process (of other
/// tools) stay as they are. Times are those of the first of its parts.
std::vector<std::shared_ptr<const run::Recording>> join_processes(
    std::span<const std::shared_ptr<const run::Recording>> recordings);

}  // namespace foregather::rebuild
