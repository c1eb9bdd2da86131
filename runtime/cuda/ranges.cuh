// NVTX ranges around launches, for profilers.
#pragma once

#include <string>

namespace foregather::runtime::cuda {

/// Whether a profiler listens; without one, ranges cost nothing.
bool has_range_listener();

/// A range of the domain "foregather" on this thread.
class RangeScope {
 public:
  /// An empty name: none.
  explicit RangeScope(const std::string& name);
  ~RangeScope();
  RangeScope(const RangeScope&) = delete;
  RangeScope& operator=(const RangeScope&) = delete;

 private:
  bool is_open_;
};

}  // namespace foregather::runtime::cuda
