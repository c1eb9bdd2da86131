// Scaling over numbers of GPUs in the report, on the terminal and as JSON.
#pragma once

#include <string>
#include <vector>

#include "core/base/json_writer.h"
#include "tasks/validation/scaling.h"

namespace foregather::tasks {

/// A section with every family. Empty without families.
std::string scaling_markdown(const std::vector<RowResult>& rows);

/// One line. Empty without families.
std::string scaling_text(const std::vector<RowResult>& rows);

/// The field `scaling` of an object that is open; docs/formats.md.
void write_scaling(JsonWriter& json, const std::vector<RowResult>& rows);

}  // namespace foregather::tasks
