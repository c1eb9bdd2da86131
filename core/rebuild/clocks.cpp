#include "core/rebuild/clocks.h"

#include <algorithm>
#include <span>
#include <tuple>

namespace foregather::rebuild {
namespace {

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

Pair compared(std::span<const SharedEnd> ends) {  // of one pair, by time
  std::vector<Ns> ahead;
  for (const SharedEnd& end : ends) ahead.push_back(end.ahead);
  const auto half = ahead.begin() + static_cast<std::ptrdiff_t>(ahead.size() / 2);
  Pair pair{ends.front().a, ends.front().b, ends.size(), {}};
  pair.clock.drift = middle({half, ahead.end()}) - middle({ahead.begin(), half});
  pair.clock.offset = middle(ahead);
  for (Ns& value : ahead) value = std::abs(value - pair.clock.offset);
  std::sort(ahead.begin(), ahead.end());
  pair.clock.uncertainty = ahead[(ahead.size() * 9 + 9) / 10 - 1];
  return pair;
}

}  // namespace

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
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < ends.size();) {
    std::size_t last = i;
    while (last < ends.size() && ends[last].a == ends[i].a && ends[last].b == ends[i].b) ++last;
    if (last - i >= kFewestSharedCollectives)
      pairs.push_back(compared(std::span(ends).subspan(i, last - i)));
    i = last;
  }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Pair& x, const Pair& y) { return x.shared > y.shared; });
  std::vector<std::optional<Clock>> clocks(recordings);
  if (pairs.empty()) return clocks;
  const bool has_first =
      std::any_of(pairs.begin(), pairs.end(), [](const Pair& pair) { return pair.a == 0; });
  clocks[has_first ? 0 : pairs.front().a] = Clock();
  for (bool grows = true; grows;) {
    grows = false;
    for (const Pair& pair : pairs) {
      if (clocks[pair.a].has_value() == clocks[pair.b].has_value()) continue;
      const bool forward = clocks[pair.a].has_value();
      const Clock& known = *clocks[forward ? pair.a : pair.b];
      const Ns sign = forward ? 1 : -1;
      clocks[forward ? pair.b : pair.a] =
          Clock{known.offset + sign * pair.clock.offset, known.uncertainty + pair.clock.uncertainty,
                known.drift + sign * pair.clock.drift};
      grows = true;
      break;
    }
  }
  return clocks;
}

}  // namespace foregather::rebuild
