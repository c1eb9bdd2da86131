// The summary of a prediction, for a person.
#pragma once

#include <string>

#include "tasks/summary.h"

namespace foregather::cli {

/// "8.00 µs ± 16.0 µs".
std::string clock_text(const tasks::ClockFigures& clock);

/// Some twenty lines: step time, where it goes, memory and what holds it, does it fit.
std::string summary_text(const tasks::Summary& summary);

}  // namespace foregather::cli
