#include "sim/memory/memory_bound.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "sim/memory/host_order.h"
#include "sim/memory/slots.h"

namespace foregather::sim {
namespace {

// First and last access by one thread.
struct Touched {
  std::uint32_t thread = 0;
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};

// One binding of a storage to memory within the body.
struct Life {
  Bytes bytes = 0;
  bool bound_at_start = false;  // and its content is used: the first access reads it
  bool bound_at_end = false;
  std::vector<Touched> touched;
};

void touch(Life& life, HostPoint point) {
  for (Touched& touched : life.touched)
    if (touched.thread == point.thread) return void(touched.last = point.index);
  life.touched.push_back({point.thread, point.index, point.index});
}

// The lives of all storages that ops access, in one order of the host's actions.
class Lives {
 public:
  Lives(const Graph& graph, const Program& program, const std::vector<HostPoint>& order)
      : graph_(graph),
        program_(program),
        slots_(graph, program),
        old_(program.storages.count, false),
        current_(program.storages.count) {
    for (const Section section : {Section::init, Section::first})
      for (const HostPoint point : host_order(program, section))
        slots_.perform(program.threads[point.thread].actions(section)[point.index]);
    for (std::uint32_t i = 0; i < old_.size(); ++i) old_[i] = slots_.bound(i);
    for (const HostPoint point : order)
      perform(point, program.threads[point.thread].actions(Section::body)[point.index]);
    for (const auto& life : current_)
      if (life) lives_[*life].bound_at_end = true;
  }

  const std::vector<Life>& all() const { return lives_; }

 private:
  void perform(HostPoint point, const Action& action) {
    if (const auto change = slots_.perform(action)) {
      current_[change->storage] = {};
      old_[change->storage] = false;
    }
    if (action.kind != ActionKind::launch) return;
    for (const AccessedTensor& access : graph_.accesses_of(graph_.ops[action.a])) {
      const std::uint32_t storage = local_of(access.tensor);
      const Storage& row = graph_.storages[program_.storages.first + storage];
      if (row.on_host) continue;
      if (!current_[storage]) {
        const bool used_before = old_[storage] && access.mode != Access::write;
        current_[storage] = lives_.size();
        lives_.push_back({row.bytes, used_before, false, {}});
      }
      touch(lives_[*current_[storage]], point);
    }
  }

  std::uint32_t local_of(TensorId tensor) const {
    return graph_.at(tensor).storage.row() - program_.storages.first;
  }

  const Graph& graph_;
  const Program& program_;
  Slots slots_;
  std::vector<bool> old_;  // bound since before the body
  std::vector<std::optional<std::size_t>> current_;
  std::vector<Life> lives_;
};

// Where in `thread` the life surely lasts: from `first` to `last`, both included.
struct Span {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

Span span_in(const Life& life, std::uint32_t thread, std::uint32_t actions,
             const HostKnowledge& knowledge) {
  Span span{actions, -1};
  for (const Touched& touched : life.touched) {
    const HostPoint begin{touched.thread, touched.first};
    const HostPoint end{touched.thread, touched.last};
    span.first = std::min(span.first, std::int64_t{knowledge.first_after(begin, thread)});
    const std::int64_t done = knowledge.done_before(end, thread);
    span.last = std::max(span.last, touched.thread == thread ? done : done - 1);
  }
  if (life.bound_at_start) span.first = 0;
  if (life.bound_at_start && life.bound_at_end) span.last = std::int64_t{actions} - 1;
  return span;
}

Bytes largest_cut(const std::vector<Life>& lives, std::uint32_t thread, std::uint32_t actions,
                  const HostKnowledge& knowledge) {
  std::vector<Bytes> change(std::size_t{actions} + 1, 0);
  for (const Life& life : lives) {
    const Span span = span_in(life, thread, actions, knowledge);
    if (span.first > span.last) continue;
    change[static_cast<std::size_t>(span.first)] += life.bytes;
    change[static_cast<std::size_t>(span.last) + 1] -= life.bytes;
  }
  Bytes live = 0, largest = 0;
  for (const Bytes bytes : change) {
    live += bytes;
    largest = std::max(largest, live);
  }
  return largest;
}

Bytes bound_of(const Graph& graph, const Program& program) {
  const auto order = host_order(program, Section::body);
  const HostKnowledge knowledge(program, Section::body, order);
  const Lives lives(graph, program, order);
  Bytes bound = 0;
  for (std::uint32_t thread = 0; thread < program.threads.size(); ++thread) {
    const auto actions = program.threads[thread].actions(Section::body).size();
    bound = std::max(
        bound, largest_cut(lives.all(), thread, static_cast<std::uint32_t>(actions), knowledge));
  }
  return bound;
}

}  // namespace

Bytes peak_memory_bound(const Graph& graph, ProgramId program) {
  return bound_of(graph, graph.at(program));
}

Bytes peak_memory_bound(const Graph& graph) {
  Bytes bound = 0;
  for (const Program& program : graph.programs) bound = std::max(bound, bound_of(graph, program));
  return bound;
}

}  // namespace foregather::sim
