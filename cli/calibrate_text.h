// A calibration for people.
#pragma once

#include <string>

#include "tasks/calibrate.h"

namespace foregather::cli {

std::string calibrate_text(const tasks::CalibrateReport& report);

}  // namespace foregather::cli
