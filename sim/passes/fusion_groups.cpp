#include "sim/passes/fusion_groups.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <queue>
#include <set>

namespace foregather::sim {
namespace {

// Nodes that are merged two by two.
class Merging {
 public:
  explicit Merging(std::span<const FusionNode> nodes)
      : nodes_(nodes),
        members_(nodes.size()),
        after_(nodes.size()),
        before_(nodes.size()),
        seen_(nodes.size()) {
    for (std::uint32_t node = 0; node < nodes.size(); ++node) {
      members_[node] = {node};
      for (const std::uint32_t need : nodes[node].needs) {
        after_[need].insert(node);
        before_[node].insert(need);
      }
    }
  }

  std::vector<FusionGroup> run() {
    while (sweep()) {
    }
    std::vector<FusionGroup> groups;
    for (FusionGroup& group : members_) {
      std::ranges::sort(group);
      if (group.size() > 1) groups.push_back(std::move(group));
    }
    return groups;
  }

 private:
  // A merged node goes on under the number of its first one.
  bool sweep() {
    bool has_merged = false;
    for (std::uint32_t node = 0; node < nodes_.size(); ++node) {
      if (members_[node].empty() || !nodes_[node].side) continue;
      for (bool again = true; again;) {
        again = false;
        for (const std::uint32_t child : after_[node]) {
          if (nodes_[child].side != nodes_[node].side || has_other_way(node, child)) continue;
          merge(node, child);
          has_merged = again = true;
          break;
        }
      }
    }
    return has_merged;
  }

  bool has_other_way(std::uint32_t from, std::uint32_t to) {
    ++search_;
    left_.clear();
    const auto visit = [&](std::uint32_t node) {
      if (seen_[node] == search_) return;
      seen_[node] = search_;
      left_.push_back(node);
    };
    for (const std::uint32_t child : after_[from])
      if (child != to) visit(child);
    while (!left_.empty()) {
      const std::uint32_t node = left_.back();
      left_.pop_back();
      if (node == to) return true;
      for (const std::uint32_t child : after_[node]) visit(child);
    }
    return false;
  }

  void merge(std::uint32_t node, std::uint32_t child) {
    for (const std::uint32_t later : std::set(after_[child])) {
      before_[later].erase(child);
      before_[later].insert(node);
      after_[node].insert(later);
    }
    for (const std::uint32_t earlier : std::set(before_[child])) {
      after_[earlier].erase(child);
      if (earlier == node) continue;
      after_[earlier].insert(node);
      before_[node].insert(earlier);
    }
    after_[child].clear();
    before_[child].clear();
    members_[node].insert(members_[node].end(), members_[child].begin(), members_[child].end());
    members_[child].clear();
  }

  std::span<const FusionNode> nodes_;
  std::vector<FusionGroup> members_;
  std::vector<std::set<std::uint32_t>> after_, before_;
  std::vector<std::uint64_t> seen_;  // by node: the last search that came by
  std::uint64_t search_ = 0;
  std::vector<std::uint32_t> left_;
};

// How many needs each node still has, and who needs it.
struct Waiting {
  explicit Waiting(std::span<const FusionNode> nodes) : left(nodes.size()), after(nodes.size()) {
    for (std::uint32_t node = 0; node < nodes.size(); ++node) {
      left[node] = nodes[node].needs.size();
      for (const std::uint32_t need : nodes[node].needs) after[need].push_back(node);
    }
  }
  std::vector<std::size_t> left;
  std::vector<std::vector<std::uint32_t>> after;
};

}  // namespace

std::vector<FusionGroup> vertical_groups(std::span<const FusionNode> nodes) {
  return Merging(nodes).run();
}

std::vector<FusionGroup> horizontal_groups(std::span<const FusionNode> nodes) {
  Waiting waiting(nodes);
  std::deque<std::uint32_t> queue;
  for (std::uint32_t node = 0; node < nodes.size(); ++node)
    if (waiting.left[node] == 0) queue.push_back(node);
  const auto run = [&](std::uint32_t node) {
    for (const std::uint32_t later : waiting.after[node])
      if (--waiting.left[later] == 0) queue.push_back(later);
  };
  std::vector<FusionGroup> groups;
  while (!queue.empty()) {
    const std::uint32_t first = queue.front();
    queue.pop_front();
    run(first);
    if (!nodes[first].side) continue;
    FusionGroup group{first};
    for (std::size_t i = 0; i < queue.size();) {
      const std::uint32_t node = queue[i];
      if (nodes[node].side != nodes[first].side) {
        ++i;
        continue;
      }
      queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(i));
      group.push_back(node);
      run(node);
    }
    std::ranges::sort(group);
    if (group.size() > 1) groups.push_back(std::move(group));
  }
  return groups;
}

std::optional<std::vector<FusionGroup>> grouped_order(std::span<const FusionNode> nodes,
                                                      std::span<const FusionGroup> groups) {
  std::vector<std::uint32_t> piece(nodes.size());  // the first node of its piece
  std::iota(piece.begin(), piece.end(), 0);
  std::vector<FusionGroup> members(nodes.size());
  for (const FusionGroup& group : groups)
    for (const std::uint32_t node : group) piece[node] = group.front();
  for (std::uint32_t node = 0; node < nodes.size(); ++node) members[piece[node]].push_back(node);
  std::vector<std::set<std::uint32_t>> needs(nodes.size()), after(nodes.size());
  for (std::uint32_t node = 0; node < nodes.size(); ++node)
    for (const std::uint32_t need : nodes[node].needs)
      if (piece[need] != piece[node]) {
        needs[piece[node]].insert(piece[need]);
        after[piece[need]].insert(piece[node]);
      }
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ready;
  std::size_t pieces = 0;
  for (std::uint32_t node = 0; node < nodes.size(); ++node) {
    if (members[node].empty()) continue;
    ++pieces;
    if (needs[node].empty()) ready.push(node);
  }
  std::vector<FusionGroup> order;
  while (!ready.empty()) {
    const std::uint32_t node = ready.top();
    ready.pop();
    order.push_back(members[node]);
    for (const std::uint32_t later : after[node]) {
      needs[later].erase(node);
      if (needs[later].empty()) ready.push(later);
    }
  }
  if (order.size() != pieces) return std::nullopt;
  return order;
}

}  // namespace foregather::sim
