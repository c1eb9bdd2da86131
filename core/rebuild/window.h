// Which part of a recording is rebuilt.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "core/base/result.h"
#include "core/run/recording.h"

namespace foregather::rebuild {

/// The device work of a step, or of the whole recording.
struct Window {
  std::vector<run::ActivityRow> activities;  ///< by start, then end, then the file's order
  Ns begin = 0;                              ///< first start
  Ns end = 0;                                ///< last end
  /// What the host does in the step; of the whole recording: any time.
  Ns host_begin = std::numeric_limits<Ns>::min(), host_end = std::numeric_limits<Ns>::max();
  Ns length() const { return end - begin; }
};

/// The first outermost call of each correlation, by CorrelationId; absent: none.
std::vector<run::CallRow> calls_by_correlation(const run::Recording& recording);

/// With a step: the activities whose launch begins inside the last host range "ProfilerStep#N", or
/// that have no launch and begin inside it. Errors: no such step, those of run::check_span().
Result<Window> window_of(const run::Recording& recording, std::optional<std::int64_t> step);

/// A range "ProfilerStep#N" of the host.
struct HostStep {
  Ns begin = 0, end = 0;
};
/// The last one of each number N.
std::map<std::int64_t, HostStep> host_steps(const run::Recording& recording);

/// The numbers N of the ranges "ProfilerStep#N", ascending.
std::vector<std::int64_t> steps_of(const run::Recording& recording);

}  // namespace foregather::rebuild
