// Points of a sweep as bytes, from one rank to another of the same program.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/run/sweep.h"

namespace foregather::tasks {

std::string message_of(const std::vector<run::SweepPoint>& points);

/// The same points, to the last bit. Absent: no such message.
std::optional<std::vector<run::SweepPoint>> points_of(const std::string& message);

}  // namespace foregather::tasks
