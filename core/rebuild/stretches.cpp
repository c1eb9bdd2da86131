#include "core/rebuild/stretches.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace foregather::rebuild {

// From the last end on: what those before leave of one ends where the first of them begins.
Ns covered_by(std::vector<Stretch> stretches) {
  std::ranges::sort(stretches, std::greater<>(), &Stretch::end);
  Ns total = 0;
  Ns first = std::numeric_limits<Ns>::max();
  for (const Stretch& stretch : stretches) {
    total += std::max<Ns>(std::min(stretch.end, first) - stretch.begin, 0);
    first = std::min(first, stretch.begin);
  }
  return total;
}

}  // namespace foregather::rebuild
