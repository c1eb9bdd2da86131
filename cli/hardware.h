// The argument of --hw.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"

namespace foregather::cli {

/// The settings of --set, with that of --hw behind them; an empty `hardware`: as they are. Error: a
/// --set names other hardware.
Result<std::vector<std::string>> with_hardware(std::vector<std::string> sets,
                                               const std::string& hardware);

}  // namespace foregather::cli
