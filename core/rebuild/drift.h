// Clocks that run faster or slower than that of the first recording.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/rebuild/rank_timeline.h"

namespace foregather::rebuild {

struct Undrifted {
  std::vector<std::shared_ptr<const run::Recording>> recordings;  ///< as many, in the same order
  std::vector<std::string> notes;  ///< which were corrected, and by how much
};

/// The recordings with times that pass as on the first one's clock: of those whose ends of shared
/// collectives show a drift (Clock::rate), copies. Nothing: none does. Takes what put_together()
/// takes.
std::optional<Undrifted> without_drift(std::span<const run::Recording* const> recordings,
                                       const std::vector<RankTimelines>& windows,
                                       const std::vector<Ns>& epochs);

}  // namespace foregather::rebuild
