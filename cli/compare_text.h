// A comparison for a person.
#pragma once

#include <string>

#include "tasks/compare.h"

namespace foregather::cli {

/// Tables; of long lists the beginning, with how many more there are.
std::string text_of(const tasks::Comparison& comparison);

}  // namespace foregather::cli
