// Stretches of time, of which some overlap.
#pragma once

#include <vector>

#include "core/base/units.h"

namespace foregather::rebuild {

struct Stretch {
  Ns begin = 0;
  Ns end = 0;
};

/// What they cover; where several overlap it counts once. n log n.
Ns covered_by(std::vector<Stretch> stretches);

}  // namespace foregather::rebuild
