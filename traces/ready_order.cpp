#include "traces/ready_order.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "core/run/work_sample.h"

namespace foregather::traces {
namespace {

using At = std::pair<Ns, std::uint32_t>;  // time, row
using Earliest = std::priority_queue<At, std::vector<At>, std::greater<>>;

struct Resource {
  Earliest ready;
  std::size_t next = 0;  // of the prescribed order
  bool is_busy = false;
};

class Scheduler {
 public:
  explicit Scheduler(const ReadyOrderInput& input)
      : input_(input), successors_(input.deps), waits_(input.deps.of.size()) {
    std::uint32_t resources = 0;
    for (const std::uint32_t number : input.resource) resources = std::max(resources, number + 1);
    resources_.resize(resources);
    is_ready_.resize(waits_.size());
    order_.reserve(waits_.size());
  }

  std::vector<std::uint32_t> run() {
    for (std::uint32_t row = 0; row < waits_.size(); ++row)
      if ((waits_[row] = input_.deps.of[row].count) == 0) ready(row, 0);
    for (std::uint32_t number = 0; number < resources_.size(); ++number) start(number, 0);
    while (!running_.empty()) {
      const Ns now = running_.top().first;
      touched_.clear();
      while (!running_.empty() && running_.top().first == now) {
        end(running_.top().second, now);
        running_.pop();
      }
      std::sort(touched_.begin(), touched_.end());
      for (const std::uint32_t number : touched_) start(number, now);
    }
    return std::move(order_);
  }

 private:
  void ready(std::uint32_t row, Ns now) {
    const std::uint32_t number = input_.resource[row];
    is_ready_[row] = true;
    resources_[number].ready.emplace(now, row);
    touched_.push_back(number);
  }

  void end(std::uint32_t row, Ns now) {
    const std::uint32_t number = input_.resource[row];
    resources_[number].is_busy = false;
    touched_.push_back(number);
    for (const std::uint32_t next : successors_.of(row))
      if (--waits_[next] == 0) ready(next, now);
  }

  void start(std::uint32_t number, Ns now) {
    Resource& resource = resources_[number];
    if (resource.is_busy || resource.ready.empty()) return;
    std::uint32_t row = resource.ready.top().second;
    const bool is_free = number >= input_.prescribed.size() || input_.prescribed[number].empty();
    if (is_free) {
      resource.ready.pop();
    } else {
      const auto& prescribed = input_.prescribed[number];
      if (resource.next == prescribed.size() || !is_ready_[prescribed[resource.next]]) return;
      row = prescribed[resource.next++];
    }
    resource.is_busy = true;
    order_.push_back(row);
    running_.emplace(run::sum_of_times(now, input_.duration[row]), row);
  }

  const ReadyOrderInput& input_;
  const ChakraSuccessors successors_;
  std::vector<std::uint32_t> waits_;
  std::vector<bool> is_ready_;
  std::vector<Resource> resources_;
  Earliest running_;  // by their ends
  std::vector<std::uint32_t> touched_;
  std::vector<std::uint32_t> order_;
};

}  // namespace

std::vector<std::uint32_t> ready_order(const ReadyOrderInput& input) {
  return Scheduler(input).run();
}

}  // namespace foregather::traces
