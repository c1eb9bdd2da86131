// What must hold on the published results.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tasks/validation/validate.h"

namespace foregather::tasks {

/// A line of the first table of docs/validation.md.
struct Bar {
  std::string text;
  std::optional<bool> holds;  ///< absent: the tables have nothing to compare with
};
std::vector<Bar> bars(const Validation& validation);

}  // namespace foregather::tasks
