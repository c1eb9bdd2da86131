// The rows of families().
#pragma once

#include <vector>

#include "core/plan/model_families.h"

namespace foregather::plan {

std::vector<Family> make_families();

}  // namespace foregather::plan
