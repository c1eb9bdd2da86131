#include "sim/passes/fast_free.h"

#include <algorithm>
#include <tuple>

namespace foregather::sim {
namespace {

using Row = std::uint32_t;
using Rows = std::vector<Row>;

// What a gather costs until it can be freed.
struct Candidate {
  Row gather = 0;
  Rows until_gather, until_free;
  Ns free_cost = 0;
  Bytes free_memory = 0;  // free_acc_mem: of other gathers up to the last use
  Bytes memory = 0;       // acc_mem: of gathers that come before it
  std::size_t gathers = 0;
};

class Scheduler {
 public:
  Scheduler(const std::vector<FreeNode>& nodes, FreeRule rule)
      : nodes_(nodes), rule_(rule), is_scheduled_(nodes.size()), mark_(nodes.size(), 0) {
    for (Row n = 0; n < nodes_.size(); ++n) {
      if (nodes_[n].is_gather) gathers_.push_back(n);
      if (nodes_[n].is_reduce) reduces_.push_back({n, gathers_to(n)});
      if (nodes_[n].is_output && !nodes_[n].is_reduce) outputs_.push_back({n, gathers_to(n)});
    }
    for (const Row gather : gathers_) paths_.push_back(gathers_to(nodes_[gather].last_use));
  }

  Rows order() {
    while (!gathers_.empty()) {
      const Candidate next = choose();
      schedule(next.until_free.empty() ? next.until_gather : next.until_free);
      remove(next.gather);
    }
    for (Row n = 0; n < nodes_.size(); ++n)
      if (!is_scheduled_[n]) order_.push_back(n);
    return std::move(order_);
  }

 private:
  struct Goal {
    Row node = 0;
    Rows gathers;  // that it misses
  };

  // get_node_requirements: depth first along the args, without what is scheduled or in `also`.
  Rows requirements(Row target, const Rows& also = {}) {
    Rows found;
    const std::uint32_t mark = ++marks_;
    for (const Row row : also) mark_[row] = mark;
    std::vector<std::pair<Row, std::size_t>> stack;
    const auto enter = [&](Row row) {
      if (is_scheduled_[row] || mark_[row] == mark) return;
      mark_[row] = mark;
      stack.emplace_back(row, 0);
    };
    enter(target);
    while (!stack.empty()) {
      auto& [row, next] = stack.back();
      if (next < nodes_[row].args.size()) {
        enter(nodes_[row].args[next++]);
        continue;
      }
      found.push_back(row);
      stack.pop_back();
    }
    return found;
  }

  Rows gathers_to(Row target) {
    Rows found = requirements(target);
    std::erase_if(found, [&](Row row) { return !nodes_[row].is_gather; });
    return found;
  }

  Candidate candidate(Row gather) {
    Candidate candidate;
    candidate.gather = gather;
    candidate.until_gather = requirements(gather);
    const Rows rest = requirements(nodes_[gather].last_use, candidate.until_gather);
    for (const Row row : rest) {
      if (nodes_[row].is_gather)
        candidate.free_memory += nodes_[row].bytes;
      else
        candidate.free_cost += nodes_[row].time;
    }
    for (const Row row : candidate.until_gather)
      if (nodes_[row].is_gather) candidate.memory += nodes_[row].bytes;
    candidate.until_free = candidate.until_gather;
    candidate.until_free.insert(candidate.until_free.end(), rest.begin(), rest.end());
    for (const Row row : candidate.until_free) candidate.gathers += nodes_[row].is_gather ? 1 : 0;
    return candidate;
  }

  Candidate choose() {
    std::size_t fewest = nodes_.size() + 1;
    for (const Rows& path : paths_) fewest = std::min(fewest, path.size());
    std::vector<Candidate> all;
    for (std::size_t g = 0; g < gathers_.size(); ++g)
      if (paths_[g].size() == fewest) all.push_back(candidate(gathers_[g]));
    const bool frees_alone = std::any_of(
        all.begin(), all.end(), [](const Candidate& each) { return each.free_memory == 0; });
    if (rule_ == FreeRule::since_2026 && frees_alone)
      std::erase_if(all, [](const Candidate& each) { return each.free_memory != 0; });
    const auto key = [&](const Candidate& each) {
      using Key = std::tuple<Bytes, std::size_t, Bytes, Ns, const std::string&>;
      static const std::string kNone;
      if (rule_ == FreeRule::until_2026)
        return frees_alone ? Key(0, 0, 0, each.free_cost, kNone)
                           : Key(each.free_memory, 0, 0, 0, kNone);
      return Key(frees_alone ? 0 : each.free_memory, each.gathers, each.memory, each.free_cost,
                 nodes_[each.gather].name);
    };
    const auto best =
        std::min_element(all.begin(), all.end(),
                         [&](const Candidate& a, const Candidate& b) { return key(a) < key(b); });
    Candidate chosen = std::move(*best);
    if (!frees_alone) chosen.until_free.clear();
    return chosen;
  }

  void schedule(const Rows& rows) {
    for (const Row row : rows) is_scheduled_[row] = true;
    order_.insert(order_.end(), rows.begin(), rows.end());
  }

  void remove(Row gather) {
    const auto at = std::find(gathers_.begin(), gathers_.end(), gather) - gathers_.begin();
    gathers_.erase(gathers_.begin() + at);
    paths_.erase(paths_.begin() + at);
    for (Rows& path : paths_) std::erase(path, gather);
    for (std::vector<Goal>* goals : {&reduces_, &outputs_})
      for (Goal& goal : *goals)
        if (std::erase(goal.gathers, gather) != 0 && goal.gathers.empty())
          schedule(requirements(goal.node));
  }

  const std::vector<FreeNode>& nodes_;
  FreeRule rule_;
  std::vector<bool> is_scheduled_;
  std::vector<std::uint32_t> mark_;
  std::uint32_t marks_ = 0;
  Rows gathers_;             // not chosen yet
  std::vector<Rows> paths_;  // by row of gathers_: those up to its last use, not chosen yet
  std::vector<Goal> reduces_, outputs_;
  Rows order_;
};

}  // namespace

std::vector<std::uint32_t> fast_free_order(const std::vector<FreeNode>& nodes, FreeRule rule) {
  return Scheduler(nodes, rule).order();
}

}  // namespace foregather::sim
