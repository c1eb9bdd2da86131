#include "sim/engine/memory_plans.h"

#include <algorithm>

namespace foregather::sim {
namespace {

/// Two independent sums of products, 64 bits each: what differs by chance agrees once in 2^128.
class Mixer {
 public:
  void add(std::uint64_t word) {
    a_ = folded(a_ ^ word, 0x9E3779B97F4A7C15U);
    b_ = folded(b_ + word, 0xD6E8FEB86659FD93U);
  }
  std::array<std::uint64_t, 2> sum() const { return {a_, b_}; }

 private:
  static std::uint64_t folded(std::uint64_t value, std::uint64_t by) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(value) * by;
    return static_cast<std::uint64_t>(product) + static_cast<std::uint64_t>(product >> 64) + 1;
  }
  std::uint64_t a_ = 0x243F6A8885A308D3U, b_ = 0x13198A2E03707344U;
};

}  // namespace

// All that ClassMemory and MemoryPlan look at, with rows counted from the program's first.
MemoryPlans::Signature MemoryPlans::signature_of(const Graph& graph, const Program& program) {
  Mixer mixer;
  mixer.add(program.storages.count);
  mixer.add(program.storages.first);
  mixer.add(program.ops.first);
  for (std::uint32_t row = program.storages.first; row < program.storages.end(); ++row) {
    const Storage& storage = graph.storages[row];
    mixer.add(static_cast<std::uint64_t>(storage.bytes));
    mixer.add(static_cast<std::uint64_t>(storage.cause) << 1 | (storage.on_host ? 1 : 0));
  }
  mixer.add(graph.tensors.size());
  for (const Tensor& tensor : graph.tensors) mixer.add(tensor.storage.row());
  mixer.add(program.threads.size());
  for (const HostThread& thread : program.threads)
    for (const std::vector<Action>& actions : thread.sections) {
      mixer.add(actions.size());
      for (const Action& action : actions) {
        const std::uint64_t stream = action.stream ? action.stream.row() + 1 : 0;
        mixer.add(static_cast<std::uint64_t>(action.kind) << 56 | stream << 32 | action.a);
        if (action.kind == ActionKind::host_wait_action) mixer.add(action.b);
      }
    }
  return mixer.sum();
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
