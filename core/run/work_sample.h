// How long a piece of device work took where it was recorded.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "core/base/units.h"
#include "core/ir/graph.h"

namespace foregather::run {

/// One distinct (kernel, shape).
struct WorkSample {
  std::string kernel;  ///< its name; empty: of any kernel
  /// What the schedule of a prediction would say of it, without a group. Of a kernel whose op is
  /// not known only `kind` and `dtype` say something.
  Cost cost;
  bool has_cost = false;  ///< else the rest of `cost` is not what a schedule would say
  /// Of attention whose kernel is not known: is it cuDNN's? Absent: it may be.
  std::optional<bool> by_cudnn;
  std::int64_t threads = 0;  ///< of the grid; 0: not known
  std::uint32_t ranks = 1;   ///< of a collective
  Ns time = 0;               ///< median of the repeats; of a collective the least: it has no wait
  Ns total = 0;              ///< of all repeats
  std::int64_t repeats = 1;

  Bytes bytes() const {
    return cost.message_bytes > 0 ? cost.message_bytes : cost.bytes_read + cost.bytes_written;
  }
};

/// What the op of a kernel's name is, of a producer that knows: shapes without a framework's.
struct KernelWork {
  StringId kernel;  ///< the source of its ops
  Cost cost;        ///< without a group
  friend bool operator==(const KernelWork&, const KernelWork&) = default;
};

/// The sum; of damaged times, that have no room, the largest there is.
constexpr Ns sum_of_times(Ns a, Ns b) {
  constexpr Ns kMost = std::numeric_limits<Ns>::max();
  return a > kMost - b ? kMost : a + b;
}

/// By kernel, then by size: neighbours are alike.
bool is_before(const WorkSample& a, const WorkSample& b);

}  // namespace foregather::run
