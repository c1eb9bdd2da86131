#include "core/rebuild/clocks.h"

#include <algorithm>
#include <functional>
#include <span>
#include <tuple>

namespace foregather::rebuild {
namespace {

constexpr double kTrillion = 1e12;
constexpr std::size_t kFewestForDrift = 12;

Ns scaled(Ns time, std::int64_t rate) {
  return static_cast<Ns>(static_cast<double>(time) * (static_cast<double>(rate) / kTrillion));
}

/// The clock of b against that of a.
struct Pair {
  std::uint32_t a = 0, b = 0;
  std::size_t shared = 0;
  Clock clock;
};

Ns middle(std::vector<Ns> values) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

/// How far nine of ten ends are from the clock.
Ns uncertainty_of(std::span<const SharedEnd> ends, const Clock& clock) {
  std::vector<Ns> away;
  for (const SharedEnd& end : ends)
    away.push_back(std::abs(end.ahead - clock.offset - scaled(end.time - clock.at, clock.rate)));
  std::sort(away.begin(), away.end());
  return away[(away.size() * 9 + 9) / 10 - 1];
}

/// A line through the ends: first by the medians of its halves, then by least squares over those
/// that lie within three times the median distance of it. Around the middle, so that nothing large
/// is squared.
Clock fitted(std::span<const SharedEnd> ends, const Clock& constant) {
  const std::size_t half = ends.size() / 2;
  std::vector<Ns> times;
  for (const SharedEnd& end : ends) times.push_back(end.time);
  const auto half_at = times.begin() + static_cast<std::ptrdiff_t>(half);
  const Ns apart = middle({half_at, times.end()}) - middle({times.begin(), half_at});
  Clock line = constant;
  line.at = middle(times);
  if (apart <= 0) return constant;
  line.rate = static_cast<std::int64_t>(static_cast<double>(constant.drift) /
                                        static_cast<double>(apart) * kTrillion);
  std::vector<Ns> residuals;
  const auto residual = [&](const SharedEnd& end) {
    return end.ahead - constant.offset - scaled(end.time - line.at, line.rate);
  };
  for (const SharedEnd& end : ends) residuals.push_back(residual(end));
  const Ns center = middle(residuals);
  for (Ns& value : residuals) value = std::abs(value - center);
  const Ns most = 3 * middle(residuals) + 1;
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const SharedEnd& end : ends) {
    const Ns away = residual(end) - center;
    if (std::abs(away) > most) continue;
    const auto t = static_cast<double>(end.time - line.at), d = static_cast<double>(away);
    n += 1, x += t, y += d, xx += t * t, xy += t * d;
  }
  const double spread = n * xx - x * x;
  if (spread <= 0) return constant;
  const double slope = (n * xy - x * y) / spread;
  line.rate += static_cast<std::int64_t>(slope * kTrillion);
  line.offset = constant.offset + center + static_cast<Ns>((y - slope * x) / n);
  line.uncertainty = uncertainty_of(ends, line);
  return line;
}

/// `first` takes times of the root's clock to a's, `second` a's to b's.
Clock composed(const Clock& first, const Clock& second) {
  Clock clock;
  clock.at = first.at;
  clock.offset =
      first.offset + second.offset + scaled(first.at + first.offset - second.at, second.rate);
  clock.rate = first.rate + second.rate + scaled(first.rate, second.rate);
  clock.uncertainty = first.uncertainty + second.uncertainty;
  clock.drift = first.drift + second.drift;
  clock.island = first.island;
  clock.has_few = first.has_few;
  return clock;
}

Clock inverse(const Clock& clock) {
  const double rate = static_cast<double>(clock.rate);
  const auto back = static_cast<std::int64_t>(-rate * (kTrillion / (kTrillion + rate)));
  return {-clock.offset, clock.uncertainty, -clock.drift, back, clock.at + clock.offset};
}

Pair compared(std::span<const SharedEnd> ends) {  // of one pair, by time
  std::vector<Ns> ahead;
  for (const SharedEnd& end : ends) ahead.push_back(end.ahead);
  const auto half = ahead.begin() + static_cast<std::ptrdiff_t>(ahead.size() / 2);
  Pair pair{ends.front().a, ends.front().b, ends.size(), {}};
  if (ends.size() > 1)
    pair.clock.drift = middle({half, ahead.end()}) - middle({ahead.begin(), half});
  pair.clock.offset = middle(ahead);
  pair.clock.uncertainty = uncertainty_of(ends, pair.clock);
  if (ends.size() < kFewestForDrift) return pair;
  const Clock line = fitted(ends, pair.clock);
  if (2 * line.uncertainty < pair.clock.uncertainty) pair.clock = line;
  return pair;
}

// Puts the later one of two islands that a pair leads to on the clock of the earlier one.
bool join_islands(const Pair& pair, std::vector<std::optional<Clock>>& clocks) {
  const auto &a = clocks[pair.a], &b = clocks[pair.b];
  if (!a || !b || a->island == b->island) return false;
  const bool forward = a->island < b->island;
  const Clock& near = forward ? *a : *b;
  const Clock far = forward ? *b : *a;
  const Clock between =
      composed(composed(near, forward ? pair.clock : inverse(pair.clock)), inverse(far));
  for (std::optional<Clock>& clock : clocks)
    if (clock && clock->island == far.island) {
      clock = composed(between, *clock);
      clock->has_few = true;
    }
  return true;
}

}  // namespace

Ns drifted(const Clock& clock, Ns time) {
  const double rate = static_cast<double>(clock.rate);
  const auto passed = static_cast<double>(time - clock.offset - clock.at);
  return static_cast<Ns>(passed * (rate / (kTrillion + rate)));
}

void add_shared_ends(const RankTimelines& ranks, const MatchedCollectives& matched,
                     const std::vector<Ns>& begins, std::vector<SharedEnd>& ends) {
  for (const CollectiveChain& chain : matched.chains)
    for (std::size_t c = 0; c < chain.collectives(); ++c) {
      const auto end = [&](std::size_t member) {
        const std::uint32_t recording = chain.recordings[member];
        return begins[recording] + ranks[recording]->timeline.ops[chain.op(c, member)].end;
      };
      for (std::size_t m = 1; m < chain.recordings.size(); ++m)
        ends.push_back({chain.recordings[0], chain.recordings[m], end(0), end(m) - end(0)});
    }
}

std::vector<std::optional<Clock>> align_clocks(std::size_t recordings,
                                               std::vector<SharedEnd> ends) {
  std::sort(ends.begin(), ends.end(), [](const SharedEnd& x, const SharedEnd& y) {
    return std::tie(x.a, x.b, x.time, x.ahead) < std::tie(y.a, y.b, y.time, y.ahead);
  });
  std::vector<Pair> pairs, few;
  for (std::size_t i = 0; i < ends.size();) {
    std::size_t last = i;
    while (last < ends.size() && ends[last].a == ends[i].a && ends[last].b == ends[i].b) ++last;
    (last - i >= kFewestSharedCollectives ? pairs : few)
        .push_back(compared(std::span(ends).subspan(i, last - i)));
    i = last;
  }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Pair& x, const Pair& y) { return x.shared > y.shared; });
  std::vector<std::optional<Clock>> clocks(recordings);
  std::uint32_t islands = 0;
  const auto begin_island = [&](std::uint32_t root) {
    const auto first =
        std::ranges::find_if(pairs, [&](const Pair& pair) { return pair.a == root; });
    if (first == pairs.end() || clocks[root]) return;
    clocks[root] = Clock();
    clocks[root]->at = first->clock.at;
    clocks[root]->island = islands++;
    for (bool grows = true; grows;) {
      grows = false;
      for (const Pair& pair : pairs) {
        if (clocks[pair.a].has_value() == clocks[pair.b].has_value()) continue;
        const bool forward = clocks[pair.a].has_value();
        clocks[forward ? pair.b : pair.a] = forward
                                                ? composed(*clocks[pair.a], pair.clock)
                                                : composed(*clocks[pair.b], inverse(pair.clock));
        grows = true;
        break;
      }
    }
  };
  begin_island(0);
  if (!pairs.empty()) begin_island(pairs.front().a);
  for (std::uint32_t i = 0; i < recordings; ++i) begin_island(i);
  std::ranges::stable_sort(few, std::greater<>(), &Pair::shared);
  for (bool joins = true; joins;)
    joins = std::ranges::any_of(few, [&](const Pair& pair) { return join_islands(pair, clocks); });
  return clocks;
}

}  // namespace foregather::rebuild
