// The value of a figure under which predictions are least off.
#pragma once

#include <functional>

namespace foregather::sim {

/// The x in [low, high] with the least error(x): a coarse scan by equal factors, then golden
/// sections around the best point. Finds the least of a curve that falls and rises once;
/// deterministic. `low` > 0.
double least_error(double low, double high, const std::function<double(double)>& error);

}  // namespace foregather::sim
