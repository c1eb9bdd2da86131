// The use case of `foregather calibrate`: recorded runs become a hardware file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/rebuild/work_samples.h"
#include "sim/cost/calibrate.h"

namespace foregather::tasks {

struct CalibrateRequest {
  std::vector<std::string> sources;  ///< recorded runs: files of other tools, or RUN.db
  std::string hardware;              ///< the base; empty: that of the recorded GPU's name
  std::optional<double> holdout;     ///< above 0, below 1
  std::string output;                ///< path of the hardware file
};

/// A figure that changed, in base units.
struct CalibratedFigure {
  std::string name;  ///< "efficiency.gemm"
  std::string mechanism;
  double base = 0, value = 0;
};

struct CalibrateReport {
  std::vector<std::string> sources;
  std::string device;    ///< as the recording names it; empty: not said
  std::string hardware;  ///< the base
  std::string output;
  rebuild::WorkSamples samples;
  sim::Calibration calibration;
  std::vector<CalibratedFigure> figures;  ///< of the calibration
  std::vector<std::string> warnings;
};

/// Reads, fits, validates on what was held out, and writes the file, complete or not at all.
/// Errors: those of read_recorded() and load_hardware(); no device work to fit; no base (the
/// recording names no GPU that a built-in machine has); an output that is one of the sources or
/// cannot be written.
Result<CalibrateReport> calibrate_hardware(const CalibrateRequest& request);

/// The JSON object of `calibrate --json`, with a line end. See docs/formats.md.
std::string to_json(const CalibrateReport& report);

}  // namespace foregather::tasks
