// Errors by what a step spends its time on and how its kernels are made.
#pragma once

#include <string>
#include <vector>

#include "core/base/json_writer.h"
#include "tasks/validation/errors.h"

namespace foregather::tasks {

struct MechanismFigures {
  std::string mechanism;
  GroupFigures figures;
};

/// Predicted rows of all tiers, once by what the predicted step spends time on beside compute (the
/// larger of exposed communication and the host, where it is above 2 % of the step), once by
/// float8, compiled or eager kernels. Each group weighs the same.
std::vector<MechanismFigures> figures_by_mechanism(const std::vector<RowResult>& rows);

/// A section. Empty without a predicted row.
std::string mechanisms_markdown(const std::vector<RowResult>& rows);

/// The field `mechanisms` of an object that is open; docs/formats.md.
void write_mechanisms(JsonWriter& json, const std::vector<RowResult>& rows);

}  // namespace foregather::tasks
