// The work of ops that are no collectives.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"
#include "runtime/device.h"

namespace foregather::runtime {

/// Elements of several tensors, one after the other.
std::int64_t elements_of(std::span<const BoundAccess> accesses, bool reads);

/// Reads the elements of all reads (or writes) into one array of `type`; the other way round. At
/// most `elements`; returns how many there were.
std::int64_t collect(std::span<const BoundAccess> accesses, bool reads, std::byte* to, DType type,
                     std::int64_t elements);
std::int64_t distribute(std::span<const BoundAccess> accesses, const std::byte* from, DType type,
                        std::int64_t elements);

/// One worker's scratch memory and its kernels. One thread.
class Kernels {
 public:
  Kernels();

  struct Outcome {
    bool is_checked_cast = false;
    Bytes checked_bytes = 0;
    /// What is wrong with the numbers; empty: nothing.
    std::string wrong;
  };
  /// Does the work of one op: products of as many FLOPs in blocks, reading and writing as many
  /// bytes (of its tensors, again and again where they are smaller). Copies and casts move the
  /// elements of what they read, one tensor after the other, to what they write, and a cast is
  /// checked; other ops write known values of `seed`.
  Outcome perform(const Cost& cost, std::span<const BoundAccess> accesses, std::uint64_t seed);

 private:
  void multiply(std::int64_t flops);
  void read(std::span<const BoundAccess> accesses, Bytes bytes);
  void write(std::span<const BoundAccess> accesses, Bytes bytes, std::uint64_t seed);
  Outcome move(const Cost& cost, std::span<const BoundAccess> accesses);

  std::vector<float> a_, b_, c_;
  std::vector<std::byte> stream_;  ///< what ops without tensors read and write
  std::vector<std::byte> staged_, moved_;
  std::uint64_t sum_ = 0;  ///< of all that was read, so that reading is not left out
};

}  // namespace foregather::runtime
