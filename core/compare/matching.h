// Which ops of two runs are the same, and how far their times are apart.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/run/comparison.h"
#include "core/run/run.h"

namespace foregather::compare {

using run::kMatchLevels;
using run::MatchLevel;

/// Ops of the first and of the second step that share a key at a level.
struct MatchedGroup {
  std::optional<MatchLevel>
      level;  ///< absent: only one step has them, not even their phase is shared
  Phase phase = Phase::other;
  OpKind kind = OpKind::other;    ///< at levels that know it
  StringId scope, kernel;         ///< of Matching::strings; absent: none, or not of the level
  std::uint16_t micro_batch = 0;  ///< with `ordinal`, at level op
  std::uint32_t ordinal = 0;
  std::int64_t first_ops = 0, second_ops = 0;
  Ns first_time = 0, second_time = 0;  ///< sums of durations

  Ns difference() const { return first_time - second_time; }
};

struct Matching {
  /// Those that met, by level, then in order of the first step; then those of the first step alone,
  /// then of the second, by scope, phase and kind.
  std::vector<MatchedGroup> groups;
  std::size_t matched = 0, only_first = 0;  ///< numbers of groups
  StringTable strings;
  /// By op of the step, from its first one on: row of `groups`.
  std::array<std::vector<std::uint32_t>, 2> group_of;
  std::array<Ns, kMatchLevels> second_matched{};  ///< time of the second step matched at each level
  Ns second_time = 0;                             ///< of all its ops

  std::span<const MatchedGroup> met() const { return std::span(groups).first(matched); }
  std::span<const MatchedGroup> of_first_alone() const {
    return std::span(groups).subspan(matched, only_first);
  }
  std::span<const MatchedGroup> of_second_alone() const {
    return std::span(groups).subspan(matched + only_first);
  }
  /// "-" for the root.
  std::string_view scope(const MatchedGroup& group) const;
  /// "m0/layers.3.attn/backward/gemm/2", "layers.3.attn/backward/gemm", …, "backward"; of two
  /// measured runs "layers.3.attn/backward/KERNEL/2".
  std::string key(const MatchedGroup& group) const;
};

/// Joins ops at the finest level at which both sides have a key, level by level. Micro-batch,
/// scope, phase, kind and ordinal make an op; where both runs are measured scope, phase, the name
/// of the kernel and its ordinal. Collectives count from the arrival of all ranks where that is
/// known. Linear, but for hashing.
Matching match(run::RunView first, run::StepRow first_step, run::RunView second,
               run::StepRow second_step);

/// The rows of a database; `runs` are the names there.
run::Comparison comparison_rows(const Matching& matching, std::array<std::string, 2> runs,
                                std::array<run::StepRow, 2> steps);

/// The class that has a rank, if one has.
std::optional<run::ClassRow> class_of_rank(run::RunView run, std::uint32_t rank);

/// The step to compare: of a measured run the one with that number, if the class has it; else the
/// steady one of the class, else its last one with work; of a run that was cut short the last one
/// that all ranks had left behind. Absent: it has none.
run::StepRow step_to_compare(run::RunView run, run::ClassRow rank_class,
                             std::optional<std::int64_t> number = std::nullopt);

/// Did the run end in this step, of any class, for want of memory? Its times are no step's then.
bool is_cut_short(run::RunView run, run::StepRow step);

}  // namespace foregather::compare
