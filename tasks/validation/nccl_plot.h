// Curves of collectives: predicted over published.
#pragma once

#include <string>
#include <vector>

#include "tasks/validation/nccl_tables.h"

namespace foregather::tasks {

/// One panel a table: time over message size, both logarithmic, the same axes in all panels.
/// Tables with nothing to compare are left out; empty without any other.
std::string nccl_plot(const std::vector<NcclRow>& rows);

}  // namespace foregather::tasks
