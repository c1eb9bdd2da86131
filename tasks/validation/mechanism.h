// What is behind an error, in words.
#pragma once

#include <string>

#include "tasks/validation/errors.h"

namespace foregather::tasks {

/// What most likely explains the larger of a row's errors: sentences chosen by its columns, the
/// sign of the error and what the prediction spends its time on. Never by its id.
std::string mechanism_of(const RowResult& result);
/// The same of its time alone, and of its peak alone (without the word "Peak" in front).
std::string mechanism_of_time(const RowResult& result);
std::string mechanism_of_peak(const RowResult& result);

}  // namespace foregather::tasks
