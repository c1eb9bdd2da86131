// Which figures of a machine samples say something of, and their best values.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/run/work_sample.h"
#include "sim/cost/hardware.h"

namespace foregather::sim {

using SampleList = std::vector<const run::WorkSample*>;

/// What a figure is fitted to at least.
inline constexpr std::size_t kLeastShapes = 3;

/// What one model prices: "gemm bf16".
std::string mechanism_of(const run::WorkSample& sample);
/// Are all figures of the kind fitted to other kinds as well?
bool has_common_figures(OpKind kind);
/// As a share of what was measured.
double relative_error(double predicted, double measured);

/// A figure and the samples that it is fitted to.
struct FigureTask {
  std::size_t spec = 0;  ///< row of figure_specs()
  SampleList samples;
};

struct FittedMachine {
  Hardware hardware;  ///< the base, with figures that say more of the samples
  std::vector<FigureTask> tasks;
};

/// As calibrate() says. The samples are borrowed.
FittedMachine fit_figures(std::span<const run::WorkSample* const> samples, const Hardware& base);

}  // namespace foregather::sim
