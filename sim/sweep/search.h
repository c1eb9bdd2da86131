// The best point of a grid, without a visit to all of them.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/base/result.h"
#include "sim/sweep/grid.h"

namespace foregather::sim {

/// How good a point is: first how far it is from meeting the limit, then what it costs, then how
/// near the limit it is.
struct Judgement {
  std::int64_t excess = 0;  ///< 0: it meets the limit
  std::int64_t cost = 0;    ///< of one that does not: at least
  std::int64_t used = 0;    ///< of what is limited
  bool fits() const { return excess == 0; }
  friend auto operator<=>(const Judgement&, const Judgement&) = default;
};

/// What judges the points of a grid, by their number.
class Judge {
 public:
  virtual ~Judge() = default;
  /// May the point be taken at all?
  virtual Result<bool> is_allowed(std::int64_t point) = 0;
  /// Cheap, and no part above judge()'s; absent: the point is impossible.
  virtual std::optional<Judgement> floor(std::int64_t point) = 0;
  /// Dear. Absent: the point is impossible.
  virtual Result<std::optional<Judgement>> judge(std::int64_t point) = 0;
};

struct SearchLimits {
  std::int64_t judged = 0;        ///< points at most
  std::int64_t enumerated = 0;    ///< to prove, so many points that are allowed are gone through
  std::function<bool()> is_over;  ///< asked before each point; empty: never
};

/// A point that was judged, or ruled out.
struct JudgedPoint {
  std::int64_t point = 0;
  Judgement judgement;
  friend auto operator<=>(const JudgedPoint& a, const JudgedPoint& b) {
    if (const auto order = a.judgement <=> b.judgement; order != 0) return order;
    return a.point <=> b.point;
  }
  friend bool operator==(const JudgedPoint&, const JudgedPoint&) = default;
};

struct SearchOutcome {
  std::vector<JudgedPoint> judged;     ///< as they came
  std::optional<JudgedPoint> best;     ///< the least of them that fit
  std::vector<JudgedPoint> outside;    ///< those looked at that do not fit, as they came
  std::optional<JudgedPoint> closest;  ///< the least of them; judged, unless many came before it
  std::int64_t ruled_out = 0;          ///< by their floors
  std::int64_t impossible = 0;
  std::int64_t excluded = 0;  ///< of those looked at: not allowed
  bool is_proved = false;     ///< no point of the grid is better than `best`; or none fits
  bool is_over = false;       ///< limits ended it
  /// No point of the grid costs less; known once all were looked at.
  std::optional<std::int64_t> cost_floor;
};

/// From the first allowed point, one axis after the other takes its best value, until none changes;
/// then two at a time; then the same from points far apart. What floors rule out is not judged:
/// points that cannot meet the limit, or cannot be better than the best so far. Of an axis of many
/// values those near the current one and some farther and farther away are tried. At last, where
/// the grid is small enough, all points that are left come in the order of their floors, until the
/// least floor is no better than the best: that proves it. Of equal points the one of the lowest
/// number is the best, once it is proved. Where none meets the limit, those whose floors come
/// nearest to it are judged.
///
/// Errors: those of the judge. Memory: some 100 bytes a point that is looked at.
Result<SearchOutcome> search(const Grid& grid, Judge& judge, const SearchLimits& limits);

}  // namespace foregather::sim
