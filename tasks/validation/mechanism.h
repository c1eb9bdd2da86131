// What is behind an error, in words.
#pragma once

#include <string>

#include "tasks/validation/errors.h"

namespace foregather::tasks {

/// The mechanism that most likely explains the time error of a row (the peak error where there is
/// no time), from its columns and the sign of the error alone.
std::string mechanism_of(const RowResult& result);

}  // namespace foregather::tasks
