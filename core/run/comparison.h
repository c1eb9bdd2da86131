// Which ops of two runs are the same, as rows.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/run/rows.h"

namespace foregather::run {

/// Ops of two steps that share a key at a level, or of one step alone.
struct ComparedGroup {
  std::optional<MatchLevel> level;  ///< absent: only one step has such ops
  OpKind kind = OpKind::other;      ///< at levels that know it
  Phase phase = Phase::other;
  std::string key;  ///< "m0/layers.3.attn/backward/gemm/2", "layers.3.attn/backward/gemm", …
  std::array<std::int64_t, 2> ops{};  ///< of the first and of the second step
  std::array<Ns, 2> time{};           ///< sums of durations
  friend bool operator==(const ComparedGroup&, const ComparedGroup&) = default;
};

/// Every op of two steps is in one group.
struct Comparison {
  std::array<std::string, 2> runs;  ///< names in the same database
  std::array<StepRow, 2> steps;
  std::vector<ComparedGroup> groups;
  /// By op of the step, from its first one on: row of `groups`.
  std::array<std::vector<std::uint32_t>, 2> group_of;
  friend bool operator==(const Comparison&, const Comparison&) = default;
};

}  // namespace foregather::run
