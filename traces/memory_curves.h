// The curves of a memory record.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "core/run/run.h"

namespace foregather::traces {

struct MemoryCurve {
  std::string_view name;
  Bytes run::MemoryRecord::*bytes;
};
inline constexpr std::array kMemoryCurves{MemoryCurve{"requested", &run::MemoryRecord::requested},
                                          MemoryCurve{"allocated", &run::MemoryRecord::allocated},
                                          MemoryCurve{"active", &run::MemoryRecord::active},
                                          MemoryCurve{"reserved", &run::MemoryRecord::reserved}};

/// Is the curve more than zeros in the records that `is_own` takes? What a recording does not say
/// is 0 everywhere.
template <class IsOwn>
bool is_known(const MemoryCurve& curve, run::RunView run, const IsOwn& is_own) {
  return std::any_of(run.memory.begin(), run.memory.end(), [&](const run::MemoryRecord& point) {
    return is_own(point) && point.*curve.bytes != 0;
  });
}

}  // namespace foregather::traces
