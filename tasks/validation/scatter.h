// Predicted against published figures of rows, as a picture.
#pragma once

#include <string>
#include <vector>

#include "tasks/validation/errors.h"

namespace foregather::tasks {

/// An SVG with one point a row that has both figures, in the colour of its GPU's family (the words
/// before the first '-' or '('), on the diagonal where they agree, in a band within 10 % of it.
/// Empty without a row.
std::string step_time_svg(const std::vector<RowResult>& rows);
std::string peak_svg(const std::vector<RowResult>& rows);

}  // namespace foregather::tasks
