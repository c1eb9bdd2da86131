#include "sim/engine/bounds.h"

#include <algorithm>
#include <vector>

#include "sim/memory/host_order.h"

namespace foregather::sim {
namespace {

constexpr std::uint32_t kBodies = 4;
constexpr std::size_t kMostWrites = 256;  // remembered of one storage
constexpr std::uint32_t kNone = 0xffffffffU;

// Part of a storage and the execution that wrote it last.
struct Write {
  Bytes begin = 0;
  Bytes end = 0;
  std::uint32_t node = 0;
};

// The executions of kBodies bodies in which only dependencies delay an op.
class Unrolled {
 public:
  Unrolled(const Graph& graph, const Program& program, const std::vector<Ns>& durations)
      : graph_(graph),
        program_(program),
        durations_(durations),
        finish_(std::size_t{program.ops.count} * kBodies, 0),
        before_(finish_.size(), kNone),
        writes_(program.storages.count) {
    const auto order = host_order(program, Section::body);
    for (std::uint32_t body = 0; body < kBodies; ++body)
      for (const HostPoint point : order)
        perform(body, program.threads[point.thread].actions(Section::body)[point.index]);
  }

  // The largest time per step of a way from an op to the same op of a later step, along the way
  // that ends last.
  Ns longest_cycle() const {
    const std::size_t last = finish_.size() - program_.ops.count;
    const auto latest =
        std::max_element(finish_.begin() + static_cast<std::ptrdiff_t>(last), finish_.end());
    if (latest == finish_.end()) return 0;
    Ns longest = 0;
    std::vector<std::uint32_t> seen(program_.ops.count, kNone);  // latest body of each op
    for (auto node = static_cast<std::uint32_t>(latest - finish_.begin()); node != kNone;
         node = before_[node]) {
      const std::uint32_t op = node % program_.ops.count;
      const std::uint32_t body = node / program_.ops.count;
      if (seen[op] == kNone)
        seen[op] = body;
      else
        longest = std::max(longest, (finish_[op + seen[op] * program_.ops.count] - finish_[node]) /
                                        (seen[op] - body));
    }
    return longest;
  }

 private:
  void perform(std::uint32_t body, const Action& action) {
    if (action.kind == ActionKind::alloc) writes_[action.a - program_.storages.first].clear();
    if (action.kind == ActionKind::launch) launch(body, OpId(action.a));
  }

  void launch(std::uint32_t body, OpId id) {
    const Op& op = graph_.at(id);
    const std::uint32_t node = node_of(body, id);
    Ns start = 0;
    const auto depends_on = [&](std::uint32_t other) {
      if (finish_[other] <= start) return;
      start = finish_[other];
      before_[node] = other;
    };
    for (const OpId dep : graph_.deps_of(op))
      if (program_.ops.contains(dep.row())) depends_on(node_of(body, dep));
    for (const AccessedTensor& access : graph_.accesses_of(op))
      if (access.mode != Access::write) each_write(access, depends_on);
    finish_[node] = start + durations_[id.row() - program_.ops.first];
    for (const AccessedTensor& access : graph_.accesses_of(op))
      if (access.mode != Access::read) note_write(access, node);
  }

  std::uint32_t node_of(std::uint32_t body, OpId id) const {
    return body * program_.ops.count + (id.row() - program_.ops.first);
  }

  Write place_of(const AccessedTensor& access, std::uint32_t node) const {
    const Bytes begin = graph_.at(access.tensor).offset + access.offset;
    return {begin, begin + access.bytes, node};
  }

  std::vector<Write>& writes_of(const AccessedTensor& access) {
    return writes_[graph_.at(access.tensor).storage.row() - program_.storages.first];
  }

  template <class Use>
  void each_write(const AccessedTensor& access, const Use& use) {
    const Write read = place_of(access, 0);
    for (const Write& write : writes_of(access))
      if (write.begin < read.end && read.begin < write.end) use(write.node);
  }

  void note_write(const AccessedTensor& access, std::uint32_t node) {
    const Write now = place_of(access, node);
    auto& writes = writes_of(access);
    std::erase_if(writes, [&](const Write& old) {
      return now.begin <= old.begin && old.end <= now.end && old.node != node;
    });
    // Forgetting a write loses a dependency, and the bound stays one.
    if (writes.size() == kMostWrites) writes.erase(writes.begin());
    writes.push_back(now);
  }

  const Graph& graph_;
  const Program& program_;
  const std::vector<Ns>& durations_;
  std::vector<Ns> finish_;             // by body × ops + op
  std::vector<std::uint32_t> before_;  // the dependency that ended last
  std::vector<std::vector<Write>> writes_;
};

// Full-rate durations of a program's ops in one class.
std::vector<Ns> durations_of(const Graph& graph, const RankClass& rank_class,
                             const CostTable& prices) {
  constexpr std::int64_t kMillion = 1'000'000;
  const Program& program = graph.at(rank_class.program);
  std::vector<Ns> durations(program.ops.count);
  for (std::uint32_t i = 0; i < program.ops.count; ++i) {
    const Op& op = graph.ops[program.ops.first + i];
    durations[i] = prices.prices[op.cost.row()].duration;
    if (is_collective(op.kind)) continue;
    const std::int64_t scale = rank_class.compute_scale_ppm;
    durations[i] = durations[i] / kMillion * scale + durations[i] % kMillion * scale / kMillion;
  }
  return durations;
}

Ns largest(std::span<const Ns> sums) {
  return sums.empty() ? 0 : *std::max_element(sums.begin(), sums.end());
}

std::vector<Ns> sums_of(const Graph& graph, const Program& program,
                        const std::vector<Ns>& durations) {
  const std::size_t streams = program.streams.size();
  std::vector<Ns> sums(streams + graph.communicators.size(), 0);
  for (const HostThread& thread : program.threads)
    for (const Action& action : thread.actions(Section::body)) {
      if (action.kind != ActionKind::launch) continue;
      const Op& op = graph.ops[action.a];
      const Ns duration = durations[action.a - program.ops.first];
      sums[op.stream.row()] += duration;
      if (op.communicator) sums[streams + op.communicator.row()] += duration;
    }
  return sums;
}

TimeBounds bounds_of(const Graph& graph, const RankClass& rank_class, const CostTable& prices) {
  const Program& program = graph.at(rank_class.program);
  const std::vector<Ns> durations = durations_of(graph, rank_class, prices);
  const std::vector<Ns> sums = sums_of(graph, program, durations);
  const auto streams = std::span(sums).first(program.streams.size());
  return {Unrolled(graph, program, durations).longest_cycle(), largest(streams),
          largest(std::span(sums).subspan(streams.size()))};
}

}  // namespace

Ns TimeBounds::bound() const { return std::max({dependencies, stream, communicator}); }

std::vector<Ns> busy_times(const Graph& graph, const RankClass& rank_class,
                           std::span<const CostTable> prices) {
  return sums_of(graph, graph.at(rank_class.program),
                 durations_of(graph, rank_class, prices[rank_class.hardware]));
}

TimeBounds step_time_bounds(const Graph& graph, const RankClass& rank_class,
                            std::span<const CostTable> prices) {
  return bounds_of(graph, rank_class, prices[rank_class.hardware]);
}

TimeBounds step_time_bounds(const Graph& graph, std::span<const CostTable> prices) {
  TimeBounds worst;
  for (const RankClass& rank_class : graph.classes) {
    const TimeBounds bounds = step_time_bounds(graph, rank_class, prices);
    worst.dependencies = std::max(worst.dependencies, bounds.dependencies);
    worst.stream = std::max(worst.stream, bounds.stream);
    worst.communicator = std::max(worst.communicator, bounds.communicator);
  }
  return worst;
}

}  // namespace foregather::sim
