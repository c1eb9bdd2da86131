// Which ops of two runs are the same, and how far their times are apart.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/run/run.h"

namespace foregather::compare {

/// How finely ops of two steps met. An op key has all of them; a recording may know less.
enum class MatchLevel : std::uint8_t { op, scope_kind, scope_phase, phase };
inline constexpr std::size_t kMatchLevels = 4;
std::string_view name(MatchLevel level);

/// Ops of the first and of the second step that share a key at a level. One without the other is
/// unmatched: then it shares not even its phase.
struct MatchedGroup {
  MatchLevel level = MatchLevel::op;
  OpKind kind = OpKind::other;  ///< at levels that know it
  std::string key;  ///< "layers.3.attn/backward/gemm/2", "layers.3.attn/backward/gemm", …
  std::int64_t first_ops = 0, second_ops = 0;
  Ns first_time = 0, second_time = 0;  ///< sums of durations
};

struct Matching {
  std::vector<MatchedGroup> groups;  ///< by level, then in order of the first step
  std::vector<MatchedGroup> only_first, only_second;
  std::array<Ns, kMatchLevels> second_matched{};  ///< time of the second step matched at each level
  Ns second_time = 0;                             ///< of all its ops
};

/// Joins ops at the finest level at which both sides have a key, level by level. Micro-batch,
/// scope, phase, kind and ordinal make an op; where both runs are measured the name of the kernel
/// as well. Collectives count from the arrival of all ranks where that is known. Linear, but for
/// hashing.
Matching match(run::RunView first, run::StepRow first_step, run::RunView second,
               run::StepRow second_step);

/// The step to compare: the steady one of the class, else its last one.
run::StepRow step_to_compare(run::RunView run, run::ClassRow rank_class);

}  // namespace foregather::compare
