// What varies in a sweep, and under what conditions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "sim/sweep/condition.h"
#include "sim/sweep/grid.h"
#include "tasks/candidates.h"

namespace foregather::tasks {

/// "NAME=VALUE" of a value of `what-if.NAME`: `on` is the pass without argument, a value that
/// begins with a comma only its options. Absent: an empty value and `off` are no pass.
std::optional<std::string> pass_text(const std::string& name, const std::string& value);

/// The axes of a grid and what their values mean. An empty value leaves the key as the source has
/// it, unless the key takes an empty text (allocator.conf).
class SweepAxes {
 public:
  /// Errors, at "--vary …": unknown keys and passes, a key twice, values that the key does not take
  /// (of a range, its ends).
  static Result<SweepAxes> read(const std::vector<std::string>& vary);

  const sim::Grid& grid() const { return *grid_; }
  /// What a point's values say, added to a candidate.
  void apply(const std::vector<std::string>& values, Candidate& candidate) const;
  /// An error names an axis that sets what one of `sets` does, where that would never count.
  Status check_beside(const std::vector<std::string>& sets) const;
  /// The axis of a key, under any of its names.
  std::optional<std::size_t> column(std::string_view key) const;

 private:
  std::optional<sim::Grid> grid_;
  std::vector<std::string> keys_;          ///< as --set takes them, or "what-if.PASS"
  std::vector<std::uint8_t> takes_empty_;  ///< by axis
};

/// The conditions of --where. A key that does not vary has the value of --set or of the source.
class SweepConditions {
 public:
  static Result<SweepConditions> read(const std::vector<std::string>& where, const SweepAxes& axes,
                                      const std::vector<std::string>& sets,
                                      const std::optional<std::string>& text,
                                      const std::string& source);
  /// Does a point with these values meet them all?
  Result<bool> hold(std::vector<std::string> values) const;

 private:
  std::vector<sim::Condition> conditions_;
  std::vector<std::string> constants_;  ///< values that do not vary, behind those that do
};

/// The content of a workload; nothing if the source is something else that can be simulated.
Result<std::optional<std::string>> workload_text(const std::string& source);

/// Does each --set have a known key and a value that it takes?
Status check_sets(const std::vector<std::string>& sets);

}  // namespace foregather::tasks
