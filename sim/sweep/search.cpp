#include "sim/sweep/search.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace foregather::sim {
namespace {

constexpr std::int64_t kShortAxis = 16;       // all of its values are tried
constexpr std::int64_t kMostStarts = 12;      // descents
constexpr std::int64_t kMostTried = 1 << 20;  // points looked through for an allowed one
constexpr int kMostConfirmed = 16;            // points judged though they cannot meet the limit
constexpr std::size_t kMostPairs = 2000;      // points that differ in two axes

class GridSearch {
 public:
  GridSearch(const Grid& grid, Judge& judge, const SearchLimits& limits)
      : grid_(grid), judge_(judge), limits_(limits) {
    stride_.resize(grid.axes().size());
    std::int64_t stride = 1;
    for (std::size_t axis = stride_.size(); axis-- > 0;) {
      stride_[axis] = stride;
      stride *= grid.axes()[axis].size();
    }
  }

  Result<SearchOutcome> run() {
    auto start = first_allowed(0, kMostTried);
    const bool is_rare = start && !*start;
    for (std::int64_t n = 1; start && !is_over(); ++n) {
      if (*start)
        if (const Status done = descend(**start); !done) return tl::unexpected(done.error());
      if (n == kMostStarts) break;
      start = first_allowed(far_from_others(n), is_rare ? kMostTried / kMostStarts : kMostTried);
    }
    if (!start) return tl::unexpected(start.error());
    const auto few = has_few_allowed();
    if (!few) return tl::unexpected(few.error());
    if (*few && !limits_.is_over) most_judged_ = grid_.size();
    if (*few)
      if (const Status done = exhaust(); !done) return tl::unexpected(done.error());
    outcome_.is_over = is_over();
    if (const Status done = confirm_closest(); !done) return tl::unexpected(done.error());
    for (const auto& [point, known] : known_)
      if (known.is_allowed && known.floor && !known.judged && !is_promising(point, known))
        ++outcome_.ruled_out;
    return std::move(outcome_);
  }

 private:
  struct Known {
    std::optional<Judgement> floor;  // absent: impossible
    std::optional<Judgement> judged;
    bool is_allowed = true;
  };

  bool is_over() const {
    return std::ssize(outcome_.judged) >= most_judged_ || (limits_.is_over && limits_.is_over());
  }

  // ---- what is known of a point -----------------------------------------------------------------

  Result<Known*> look_at(std::int64_t point) {
    if (const auto found = known_.find(point); found != known_.end()) return &found->second;
    const auto allowed = judge_.is_allowed(point);
    if (!allowed) return tl::unexpected(allowed.error());
    Known known;
    known.is_allowed = *allowed;
    if (!*allowed) {
      ++outcome_.excluded;
    } else {
      known.floor = judge_.floor(point);
      if (!known.floor) ++outcome_.impossible;
      if (known.floor && !known.floor->fits()) note_outside({point, *known.floor});
    }
    return &known_.emplace(point, known).first->second;
  }

  void note_outside(const JudgedPoint& point) {
    if (!outcome_.closest || point < *outcome_.closest) outcome_.closest = point;
    outcome_.outside.push_back(point);
  }

  // Could judging it find something better than the best so far?
  bool is_promising(std::int64_t point, const Known& known) const {
    if (!known.is_allowed || !known.floor || known.judged || !known.floor->fits()) return false;
    return !outcome_.best || JudgedPoint{point, *known.floor} < *outcome_.best;
  }

  Status judge(std::int64_t point, Known& known) {
    const auto judged = judge_.judge(point);
    if (!judged) return tl::unexpected(judged.error());
    if (!*judged) {
      known.floor.reset();
      ++outcome_.impossible;
      return {};
    }
    known.judged = **judged;
    const JudgedPoint entry{point, **judged};
    outcome_.judged.push_back(entry);
    if (!entry.judgement.fits())
      note_outside(entry);
    else if (!outcome_.best || entry < *outcome_.best)
      outcome_.best = entry;
    return {};
  }

  // What it is worth on the way: as judged, or at least.
  static std::optional<Judgement> worth(const Known& known) {
    if (known.judged) return known.judged;
    if (known.floor && !known.floor->fits()) return known.floor;
    return std::nullopt;
  }

  // ---- descents
  // -----------------------------------------------------------------------------------

  // Judges those of the points that are promising, the least floor first. Returns the best one.
  Result<std::optional<JudgedPoint>> best_of(const std::vector<std::int64_t>& points) {
    std::vector<JudgedPoint> promising;
    std::optional<JudgedPoint> best;
    const auto consider = [&](std::int64_t point, const Known& known) {
      const auto value = worth(known);
      if (value && (!best || JudgedPoint{point, *value} < *best)) best = JudgedPoint{point, *value};
    };
    for (const std::int64_t point : points) {
      const auto known = look_at(point);
      if (!known) return tl::unexpected(known.error());
      if (is_promising(point, **known))
        promising.push_back({point, *(*known)->floor});
      else
        consider(point, **known);
    }
    std::ranges::sort(promising);
    for (const JudgedPoint& next : promising) {
      Known& known = known_.at(next.point);
      if (!is_promising(next.point, known)) continue;
      if (is_over()) break;
      if (const Status done = judge(next.point, known); !done) return tl::unexpected(done.error());
      consider(next.point, known);
    }
    return best;
  }

  std::int64_t position(std::int64_t point, std::size_t axis) const {
    return point / stride_[axis] % grid_.axes()[axis].size();
  }

  // How far along an axis other values are that are tried.
  std::vector<std::int64_t> moves(std::int64_t point, std::size_t axis) const {
    const std::int64_t size = grid_.axes()[axis].size(), at = position(point, axis);
    std::vector<std::int64_t> moves;
    if (size <= kShortAxis) {
      for (std::int64_t to = 0; to < size; ++to)
        if (to != at) moves.push_back((to - at) * stride_[axis]);
      return moves;
    }
    for (std::int64_t far = 1; far < size; far *= 2) {
      if (at + far < size) moves.push_back(far * stride_[axis]);
      if (at - far >= 0) moves.push_back(-far * stride_[axis]);
    }
    return moves;
  }

  // Moves to the best of the points if that is better.
  Result<bool> step(JudgedPoint& current, const std::vector<std::int64_t>& points) {
    const auto best = best_of(points);
    if (!best) return tl::unexpected(best.error());
    if (!*best || **best >= current) return false;
    current = **best;
    return true;
  }

  Status descend(std::int64_t start) {
    const auto first = best_of({start});
    if (!first) return tl::unexpected(first.error());
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    JudgedPoint current = first->value_or(JudgedPoint{start, {kMost, kMost, kMost}});
    while (true) {
      for (std::size_t axis = 0, same = 0; same < stride_.size() && !is_over();
           axis = (axis + 1) % stride_.size()) {
        std::vector<std::int64_t> points;
        for (const std::int64_t move : moves(current.point, axis))
          points.push_back(current.point + move);
        const auto moved = step(current, points);
        if (!moved) return tl::unexpected(moved.error());
        same = *moved ? 0 : same + 1;
      }
      if (is_over()) return {};
      std::vector<std::int64_t> points;
      for (std::size_t a = 0; a < stride_.size(); ++a)
        for (std::size_t b = a + 1; b < stride_.size(); ++b)
          for (const std::int64_t move : moves(current.point, a))
            for (const std::int64_t other : moves(current.point, b))
              if (points.size() < kMostPairs) points.push_back(current.point + move + other);
      const auto moved = step(current, points);
      if (!moved) return tl::unexpected(moved.error());
      if (!*moved) return {};
    }
  }

  // The next allowed point from this one on.
  Result<std::optional<std::int64_t>> first_allowed(std::int64_t from, std::int64_t most) {
    for (std::int64_t n = 0; n < std::min(grid_.size(), most); ++n) {
      if (n % 1024 == 0 && limits_.is_over && limits_.is_over()) break;
      const std::int64_t point = (from + n) % grid_.size();
      const auto allowed = judge_.is_allowed(point);
      if (!allowed) return tl::unexpected(allowed.error());
      if (*allowed) return point;
    }
    return std::nullopt;
  }

  // Each axis at another fraction of its length: multiples of the golden ratio.
  std::int64_t far_from_others(std::int64_t n) const {
    constexpr std::int64_t kParts = 1 << 16, kGolden = 40'503;
    std::int64_t point = 0, part = 0;
    for (std::size_t axis = 0; axis < stride_.size(); ++axis) {
      part = (part + n * kGolden) % kParts;
      const std::int64_t size = grid_.axes()[axis].size();
      point += (size / kParts * part + size % kParts * part / kParts) * stride_[axis];
    }
    return point;
  }

  // ---- proof
  // --------------------------------------------------------------------------------------

  // Conditions may leave few points of a large grid.
  Result<bool> has_few_allowed() {
    if (grid_.size() <= limits_.enumerated) return true;
    if (grid_.size() > kMostTried) return false;
    std::int64_t count = 0;
    for (std::int64_t point = 0; point < grid_.size() && count <= limits_.enumerated; ++point) {
      if (point % 1024 == 0 && limits_.is_over && limits_.is_over()) return false;
      const auto allowed = judge_.is_allowed(point);
      if (!allowed) return tl::unexpected(allowed.error());
      count += *allowed ? 1 : 0;
    }
    return count <= limits_.enumerated;
  }

  Status exhaust() {
    std::vector<JudgedPoint> left;
    for (std::int64_t point = 0; point < grid_.size(); ++point) {
      if (limits_.is_over && limits_.is_over()) return {};
      if (!known_.contains(point)) {
        const auto allowed = judge_.is_allowed(point);
        if (!allowed) return tl::unexpected(allowed.error());
        if (!*allowed) {
          ++outcome_.excluded;
          continue;
        }
      }
      const auto known = look_at(point);
      if (!known) return tl::unexpected(known.error());
      if (is_promising(point, **known)) left.push_back({point, *(*known)->floor});
    }
    std::ranges::sort(left);
    auto next = left.begin();
    for (; next != left.end(); ++next) {
      Known& known = known_.at(next->point);
      if (!is_promising(next->point, known)) break;  // nor are those behind
      if (is_over()) break;
      if (const Status done = judge(next->point, known); !done) return done;
    }
    outcome_.is_proved = next == left.end() || !is_promising(next->point, known_.at(next->point));
    if (outcome_.best) {
      const std::int64_t best = outcome_.best->judgement.cost;
      outcome_.cost_floor = outcome_.is_proved ? best : std::min(best, next->judgement.cost);
    }
    return {};
  }

  std::optional<JudgedPoint> closest_known() const {
    std::optional<JudgedPoint> closest;
    for (const auto& [point, known] : known_)
      if (const auto value = worth(known))
        if (const JudgedPoint entry{point, *value}; !closest || entry < *closest) closest = entry;
    return closest;
  }

  // A floor says little beside what another point was judged to need: those that could be closer
  // are judged, the least floor first.
  Status confirm_closest() {
    for (int n = 0; !outcome_.best; ++n) {
      outcome_.closest = closest_known();
      if (!outcome_.closest || n == kMostConfirmed || (limits_.is_over && limits_.is_over())) break;
      Known& known = known_.at(outcome_.closest->point);
      if (known.judged) break;
      if (const Status done = judge(outcome_.closest->point, known); !done) return done;
    }
    return {};
  }

  const Grid& grid_;
  Judge& judge_;
  const SearchLimits& limits_;
  std::int64_t most_judged_ = limits_.judged;
  std::vector<std::int64_t> stride_;  // by axis
  std::unordered_map<std::int64_t, Known> known_;
  SearchOutcome outcome_;
};

}  // namespace

Result<SearchOutcome> search(const Grid& grid, Judge& judge, const SearchLimits& limits) {
  return GridSearch(grid, judge, limits).run();
}

}  // namespace foregather::sim
