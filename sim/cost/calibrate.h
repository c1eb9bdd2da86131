// From measured times to the figures of a machine.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/run/work_sample.h"
#include "sim/cost/hardware.h"

namespace foregather::sim {

/// Errors of predictions, as fractions of what was measured.
struct Errors {
  std::size_t shapes = 0;
  double median = 0, p90 = 0;
};

/// Work that one model prices: a kind of op, of products with their type.
struct Mechanism {
  std::string name;  ///< "gemm bf16"
  OpKind kind = OpKind::other;
  std::size_t shapes = 0;         ///< distinct (kernel, shape)
  std::size_t priced_shapes = 0;  ///< of them, what a schedule would say as much of
  Ns total = 0;                   ///< device time of all repeats
  std::optional<Errors> base;     ///< of the base hardware, where it has a model of the shape
  std::optional<Errors> fitted;   ///< of the fitted figures on the same shapes
  /// Of shapes that were left out of the fit, by kernel and shape.
  std::optional<Errors> held_out;
  std::optional<Errors> inside;  ///< of them, those between measured ones of the same kernel
  std::optional<Errors> priced;  ///< as `simulate` prices them: it does not know the kernel
  double extrapolated = 0;       ///< share of the held-out shapes that are not inside
  std::string stays;             ///< why its figures stay the base's; empty: they do not
};

/// A figure that the samples say more of than the base did.
struct FittedFigure {
  std::size_t spec = 0;  ///< row of figure_specs()
  double base = 0, value = 0;
  Mechanism from;  ///< all that it is fitted to, together: "host_to_device, device_to_host"
};

struct Calibration {
  Hardware hardware;  ///< the base with the fitted figures
  std::vector<FittedFigure> figures;
  std::vector<Mechanism> mechanisms;  ///< by kind
  std::vector<Residual> residuals;
  Mechanism all;  ///< name "all": the errors of all mechanisms together
};

struct CalibrationOptions {
  /// Share of the distinct shapes that is held out once; absent: each half by the other, of
  /// alternate shapes.
  std::optional<double> holdout;
};

/// Fits the figures that samples of a kind say something of, by least absolute relative error, each
/// sample's cut at 1, so that a few bad ones count little: efficiency and ramp of products, the
/// rates of other types of number, efficiencies and ramp of attention, efficiency of each
/// memory-bound kind and the floor of a kernel, bandwidth to the host, NCCL's share of links and
/// its floor. A figure stays where a kind has less than three priced shapes, where the errors do
/// not become smaller by 2 %, or where the best value is ten times the base's or a tenth of it.
///
/// `samples` are in the order of run::is_before(): neighbours, of which one is held out, are alike.
Calibration calibrate(std::span<const run::WorkSample> samples, const Hardware& base,
                      const CalibrationOptions& options);

}  // namespace foregather::sim
