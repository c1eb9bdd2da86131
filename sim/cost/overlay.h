// A calibration as a hardware file.
#pragma once

#include <span>
#include <string>

#include "sim/cost/calibrate.h"

namespace foregather::sim {

/// The text of a hardware file over `base` (a built-in name or a path, as given to load_hardware())
/// with the figures of the calibration, its residuals and the samples; `from` names what was
/// measured. It reads back to figures that are equal to the last bit.
std::string overlay_text(const Calibration& calibration, std::span<const run::WorkSample> samples,
                         const std::string& base, const std::string& from);

}  // namespace foregather::sim
