// Pairs of published results that one choice tells apart: what the choice changed, and what the
// prediction says that it changes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tasks/validation/errors.h"

namespace foregather::tasks {

/// Of the second result beside the first, as shares of what was published of the first.
struct Effect {
  double published = 0, predicted = 0;

  /// The published effect is below 1 %: none, as far as can be told.
  bool is_none() const;
  /// The same sign; where there is no effect, one below 2 % is predicted.
  bool is_sign_right() const;
};

struct TimeEffect : Effect {
  /// The predicted effect is a share of the predicted step of the first. Both within 2 points.
  bool is_within() const;
};

struct MemoryEffect : Effect {
  /// The predicted difference of bytes is within 20 % of the published one; where there is no
  /// effect, below 2 % of the peak.
  bool is_within() const;
};

/// Two results of one group, the first as the table has them.
struct RowPair {
  std::string kind;    ///< "reshard after forward", "compile", ...; "fsdp1 / yafsdp" of strategies
  std::string change;  ///< "none → per_block"
  bool what_if = false;  ///< one of kWhatIfKinds
  const RowResult* first = nullptr;
  const RowResult* second = nullptr;
  std::optional<TimeEffect> time;      ///< absent: not published of both
  std::optional<MemoryEffect> memory;  ///< absent: not published of both in one metric
};

/// The choices that a what-if of one workload changes.
extern const std::vector<std::string> kWhatIfKinds;

struct Pairs {
  std::vector<RowPair> judged;    ///< in order of kind: kWhatIfKinds, then by name; then the table
  std::size_t not_predicted = 0;  ///< pairs with a row that is not predicted
  std::size_t nothing_in_common = 0;  ///< pairs without a figure that is published of both
  /// Results with figures that no column tells apart, although they differ.
  std::vector<std::vector<const RowResult*>> alike;
};

/// Pairs of rows of one group that differ in exactly one of strategy_key (with the compile_key that
/// a compiling strategy implies), ac_key, compile_key, compute (with fp8_all_gather), optimizer
/// and attention, and agree in every other column that describes the run. Never by id. A value
/// that is not stated makes no pair with one that is.
Pairs find_pairs(const std::vector<RowResult>& rows);

/// Two what-ifs of one choice and setup, published by two groups so far apart that no prediction is
/// within 2 points of both.
struct Contradiction {
  const RowPair* a = nullptr;
  const RowPair* b = nullptr;
};
/// Pointers into `pairs`.
std::vector<Contradiction> find_contradictions(const Pairs& pairs);

/// How many of `pairs` hold.
struct PairCounts {
  std::size_t pairs = 0, times = 0, time_signs = 0, times_within = 0;
  std::size_t memories = 0, memory_signs = 0, memories_within = 0;

  void add(const RowPair& pair);
  /// All of them; absent where there is none.
  std::optional<bool> are_signs_right() const;
  std::optional<bool> are_times_within() const;
  std::optional<bool> are_memories_within() const;
};
PairCounts count_what_ifs(const std::vector<RowResult>& rows);

}  // namespace foregather::tasks
