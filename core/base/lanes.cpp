#include "core/base/lanes.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

namespace foregather {
namespace {

template <class T>
using LowestFirst = std::priority_queue<T, std::vector<T>, std::greater<>>;

}  // namespace

Lanes lay_out_lanes(std::span<const LaneSlice> slices, std::size_t groups) {
  std::vector<std::uint32_t> order(slices.size());
  std::iota(order.begin(), order.end(), 0U);
  const auto key = [&](std::uint32_t row) {
    return std::tuple(slices[row].group, slices[row].begin, slices[row].end, row);
  };
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return key(a) < key(b); });

  Lanes lanes{std::vector<std::uint32_t>(slices.size()), std::vector<std::uint32_t>(groups, 1)};
  for (std::size_t i = 0; i < order.size();) {
    const std::uint32_t group = slices[order[i]].group;
    LowestFirst<std::pair<Ns, std::uint32_t>> busy;  // until when, lane
    LowestFirst<std::uint32_t> free;
    free.push(0);
    for (; i < order.size() && slices[order[i]].group == group; ++i) {
      const LaneSlice& slice = slices[order[i]];
      while (!busy.empty() && busy.top().first <= slice.begin) {
        free.push(busy.top().second);
        busy.pop();
      }
      if (free.empty()) free.push(lanes.count[group]++);
      lanes.lane[order[i]] = free.top();
      busy.emplace(slice.end, free.top());
      free.pop();
    }
  }
  return lanes;
}

}  // namespace foregather
