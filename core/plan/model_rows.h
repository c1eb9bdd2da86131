// The rows of families().
#pragma once

#include <vector>

#include "core/plan/model_families.h"

namespace foregather::plan {

std::vector<Family> make_families();
/// Appends the mixtures of experts.
void add_expert_families(std::vector<Family>& rows);

}  // namespace foregather::plan
