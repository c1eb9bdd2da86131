// What of the prices of collectives is fitted to published nccl-tests tables, and how well that
// carries over.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "tasks/validation/fit.h"

namespace foregather::tasks {

struct NcclFit {
  std::vector<FittedFigure> figures;  ///< their `groups` are sources
  /// Median |error| of all rows, below 1 MiB and from there on. Held out: each source's tables with
  /// the figures that are best without them; what it alone shows stays.
  std::optional<double> small, large, held_out_small, held_out_large;
};

/// Grid search, one figure after the other until none gets better, for the least mean
/// |ln(predicted / published)|, sources weighted equally, then the tables of each, and each row's
/// share limited. Some seconds. Errors: as of read_nccl_tables; a folder without times.
Result<NcclFit> fit_nccl(const std::string& directory);

std::string fit_text(const NcclFit& fit);

}  // namespace foregather::tasks
