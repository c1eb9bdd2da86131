// Predictions that replay what was measured.
#pragma once

#include <string_view>

#include "core/run/rows.h"

namespace foregather::run {

/// RunInfo::strategy of such a prediction.
inline constexpr std::string_view kReplay = "recorded";

/// Are its ops those of a recording, which need not say what they move and compute?
inline bool has_recorded_ops(const RunInfo& about) {
  return about.kind == RunKind::measured || about.strategy == kReplay;
}

}  // namespace foregather::run
