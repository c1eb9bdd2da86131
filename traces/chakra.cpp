#include "traces/chakra.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "core/base/dense_ids.h"
#include "traces/chakra_builder.h"

namespace foregather::traces {
namespace {

constexpr std::uint32_t kNone = 0xffffffffU;

// The nodes of one circle among those that still wait.
std::vector<std::uint32_t> circle_of(const ChakraDeps& deps,
                                     const std::vector<std::uint32_t>& waits) {
  const auto first = std::find_if(waits.begin(), waits.end(), [](auto n) { return n != 0; });
  std::vector<std::uint32_t> way, place(waits.size(), kNone);
  auto row = static_cast<std::uint32_t>(first - waits.begin());
  while (place[row] == kNone) {
    place[row] = static_cast<std::uint32_t>(way.size());
    way.push_back(row);
    const auto before = deps.before(row);
    row = *std::find_if(before.begin(), before.end(),
                        [&](std::uint32_t other) { return waits[other] != 0; });
  }
  way.erase(way.begin(), way.begin() + place[row]);
  return way;
}

}  // namespace

Result<ChakraTrace> read_chakra(TextSource& source, const std::string& name) {
  const auto head = take_head(source, kFormatHead);
  if (!head) return tl::unexpected(head.error());
  Peeked text(*head, source);
  return is_chakra_json(*head) ? read_chakra_json(text, name) : read_chakra_et(text, name);
}

ChakraDeps resolve_deps(const ChakraNodes& nodes, ControlDeps control) {
  DenseIds rows;
  for (const std::uint64_t id : nodes.id) rows.row(id);
  ChakraDeps deps;
  deps.of.reserve(nodes.size());
  deps.rows.reserve(nodes.dep_ids.size());
  std::vector<std::uint32_t> seen(nodes.size(), kNone);
  for (std::uint32_t row = 0; row < nodes.size(); ++row) {
    const auto first = static_cast<std::uint32_t>(deps.rows.size());
    const auto add = [&](Range range, bool keeps_later) {
      for (const std::uint64_t id : nodes.ids(range)) {
        const std::uint32_t before = rows.known(id);
        if (before == kNone) {
          ++deps.dangling;
          if (!deps.first_dangling) deps.first_dangling = row;
        } else if (before == row) {
          ++deps.self;
        } else if (before > row && !keeps_later) {
          ++deps.forward;
        } else if (seen[before] != row) {
          seen[before] = row;
          deps.rows.push_back(before);
        }
      }
    };
    add(nodes.control_deps[row], control == ControlDeps::all);
    add(nodes.deps[row], true);
    deps.of.push_back({first, static_cast<std::uint32_t>(deps.rows.size()) - first});
  }
  return deps;
}

ChakraSuccessors::ChakraSuccessors(const ChakraDeps& deps)
    : first_(deps.of.size() + 1), rows_(deps.rows.size()) {
  for (const std::uint32_t row : deps.rows) ++first_[row + 1];
  for (std::size_t row = 1; row < first_.size(); ++row) first_[row] += first_[row - 1];
  std::vector<std::uint32_t> next(first_.begin(), first_.end() - 1);
  for (std::size_t row = 0; row < deps.of.size(); ++row)
    for (const std::uint32_t before : deps.before(row))
      rows_[next[before]++] = static_cast<std::uint32_t>(row);
}

ChakraOrder topological_order(const ChakraDeps& deps) {
  ChakraOrder order;
  const auto n = static_cast<std::uint32_t>(deps.of.size());
  order.rows.reserve(n);
  std::vector<std::uint32_t> waits(n);
  for (std::uint32_t row = 0; row < n; ++row) waits[row] = deps.of[row].count;
  const ChakraSuccessors successors(deps);
  // A node that became free behind the scan; one before it is met by the scan itself.
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> earlier;
  const auto take = [&](std::uint32_t row, std::uint32_t scanned) {
    order.rows.push_back(row);
    for (const std::uint32_t next : successors.of(row))
      if (--waits[next] == 0 && next < scanned) earlier.push(next);
  };
  for (std::uint32_t row = 0; row < n; ++row) {
    if (waits[row] != 0) continue;
    take(row, row);
    while (!earlier.empty()) {
      const std::uint32_t next = earlier.top();
      earlier.pop();
      take(next, row);
    }
  }
  if (order.rows.size() < n) order.circle = circle_of(deps, waits);
  return order;
}

}  // namespace foregather::traces
