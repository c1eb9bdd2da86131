// The time that is recorded.
#pragma once

#include <cstdint>
#include <limits>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/settings.h"

namespace foregather::profiler {

/// Stretches of time, by NVTX ranges or by the clock. From any thread.
class RecordedWindow {
 public:
  /// Times are relative to the begin of the recording. Without a delay what began before it counts,
  /// too: ranges of the process that this one was forked from.
  explicit RecordedWindow(const Settings& settings);

  bool contains(std::int64_t time) const;
  /// Is this a range within which is recorded? Then opened() and closed() must tell of it.
  bool is_trigger(std::string_view range) const;
  void opened(std::int64_t time);
  void closed(std::int64_t time);
  /// No later time is recorded.
  bool is_over(std::int64_t time) const { return time >= end_; }

 private:
  static constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();
  static constexpr std::size_t kMostStretches = 65536;
  struct Stretch {
    std::int64_t begin = 0, end = kForever;
  };

  std::string range_;
  std::optional<std::pair<std::int64_t, std::int64_t>> steps_;
  std::int64_t begin_, end_ = kForever;
  mutable std::mutex mutex_;
  std::vector<Stretch> stretches_;  // by begin; only the last may be open
  int open_ = 0;                    // ranges, of all threads
};

}  // namespace foregather::profiler
