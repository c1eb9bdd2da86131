#include "sim/engine/memory_plans.h"

#include <algorithm>
#include <bit>

namespace foregather::sim {
namespace {

/// A sum of products of pairs of words: what differs by chance agrees once in 2^64.
class Mixer {
 public:
  void add(const Action& action) {
    const auto words = std::bit_cast<std::array<std::uint64_t, 2>>(action);
    add(words[0], words[1]);
  }
  void add(std::uint64_t first, std::uint64_t second) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(sum_ ^ first) * (second ^ 0x9E3779B97F4A7C15U);
    sum_ = static_cast<std::uint64_t>(product) + static_cast<std::uint64_t>(product >> 64) + 1;
  }
  std::uint64_t sum() const { return sum_; }

 private:
  std::uint64_t sum_ = 0x243F6A8885A308D3U;
};

}  // namespace

// All that ClassMemory and MemoryPlan look at, with rows counted from the program's first.
MemoryPlans::Signature MemoryPlans::signature_of(const Graph& graph, const Program& program) {
  std::array<Mixer, 2> mixers;  // a sum waits for the one before, not for the other's
  mixers[0].add(program.storages.count, program.storages.first);
  mixers[1].add(program.ops.first, program.threads.size());
  for (std::uint32_t row = program.storages.first; row < program.storages.end(); ++row) {
    const Storage& storage = graph.storages[row];
    mixers[row % 2].add(static_cast<std::uint64_t>(storage.bytes),
                        static_cast<std::uint64_t>(storage.cause) << 1 | (storage.on_host ? 1 : 0));
  }
  for (std::size_t i = 0; i + 1 < graph.tensors.size(); i += 2)
    mixers[i / 2 % 2].add(graph.tensors[i].storage.row(), graph.tensors[i + 1].storage.row());
  mixers[0].add(graph.tensors.size(),
                graph.tensors.empty() ? 0 : graph.tensors.back().storage.row());
  for (const HostThread& thread : program.threads)
    for (const std::vector<Action>& actions : thread.sections) {
      mixers[0].add(actions.size(), 0);
      std::size_t i = 0;
      for (; i + 1 < actions.size(); i += 2) {
        mixers[0].add(actions[i]);
        mixers[1].add(actions[i + 1]);
      }
      if (i < actions.size()) mixers[0].add(actions[i]);
    }
  return {mixers[0].sum(), mixers[1].sum()};
}

std::shared_ptr<MemoryPlan> MemoryPlans::find(const std::shared_ptr<const Graph>& graph,
                                              ProgramId program, const alloc::AllocConfig& config,
                                              Bytes capacity) {
  const Program& rows = graph->at(program);
  const Signature signature = signature_of(*graph, rows);
  const std::lock_guard lock(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->signature != signature || entry->config != config) continue;
    const bool fits =
        entry->capacity == capacity || entry->plan == nullptr ||
        (entry->plan->holds_from(capacity) && entry->plan->holds_from(entry->capacity));
    if (!fits) continue;
    entries_.splice(entries_.begin(), entries_, entry);
    return entry->plan;
  }
  entries_.push_front(
      {signature, config, capacity, MemoryPlan::make(*graph, rows, config, capacity, graph)});
  if (entries_.size() > most_) entries_.pop_back();
  return entries_.front().plan;
}

}  // namespace foregather::sim
