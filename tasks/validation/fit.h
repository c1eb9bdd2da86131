// What of the cost model is fitted to published step times, and how well that carries over.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace foregather::tasks {

/// A figure of hardware files that no source states and at least three groups of results show.
struct FittedFigure {
  std::string_view key;      ///< "compute.rank_spread"
  std::string_view applies;  ///< to which hardware files
  double value = 0;          ///< the best on all groups
  /// The least and most that is best when one group is left out.
  double least = 0, most = 0;
  std::size_t groups = 0;  ///< that it has an effect on
};

struct Fit {
  std::vector<FittedFigure> figures;
  /// Groups of published results weighted equally, |error| of step times. Held out: each group with
  /// the figures that are best without it.
  std::optional<double> median, held_out_median;
};

/// How far a fit is: predictions of rows or, after those, of steps.
struct FitProgress {
  std::string_view of;
  std::size_t done = 0, all = 0;
};

/// Grid search for the least mean |ln(predicted / published)| over the rows of tier A, each group
/// weighted equally and each row's share limited, so that no single group pulls. Where a group has
/// what-ifs (pairs.h), half of its weight is the same of the ratio of their two steps. The other
/// figures stay as the hardware files have them. Some minutes. `directory` holds the rows'
/// workloads. `gpu_steps`: a table of predict_gpu_steps(), of Hopper, whose steps that do not wait
/// for the host are a group like the others; empty: none. `progress`, if given, is called by one
/// thread at a time. Errors: as of read_measured and predict_gpu_steps; a table without step times.
Result<Fit> fit(const std::string& measured, const std::string& directory,
                const std::string& gpu_steps = {},
                const std::function<void(const FitProgress&)>& progress = {});

std::string fit_text(const Fit& fit);

}  // namespace foregather::tasks
