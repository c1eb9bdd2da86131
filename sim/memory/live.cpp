#include "sim/memory/live.h"

#include "sim/memory/host_order.h"
#include "sim/memory/slots.h"

namespace foregather::sim {
namespace {

class LiveWalk {
 public:
  LiveWalk(const Graph& graph, const Program& program)
      : graph_(graph), program_(program), slots_(graph, program) {}

  /// Also notes what is bound at each launch.
  std::vector<Bytes>* at_launch = nullptr;

  LivePeak section(Section section) {
    peak_ = {now_.bytes, now_.by_cause, {}};
    peak_unnamed_ = true;
    for (const HostPoint point : host_order(program_, section))
      perform(program_.threads[point.thread].actions(section)[point.index]);
    return peak_;
  }

 private:
  void perform(const Action& action) {
    if (action.kind == ActionKind::launch && peak_unnamed_) {
      peak_.at = OpId(action.a);
      peak_unnamed_ = false;
    }
    if (action.kind == ActionKind::launch && at_launch != nullptr)
      (*at_launch)[action.a] = now_.bytes;
    const auto change = slots_.perform(action);
    if (!change) return;
    const Storage& storage = graph_.storages[program_.storages.first + change->storage];
    if (storage.on_host) return;
    const Bytes bytes = change->bound ? storage.bytes : -storage.bytes;
    now_.bytes += bytes;
    now_.by_cause[static_cast<std::size_t>(storage.cause)] += bytes;
    if (now_.bytes <= peak_.bytes) return;
    peak_ = {now_.bytes, now_.by_cause, {}};
    peak_unnamed_ = true;
  }

  const Graph& graph_;
  const Program& program_;
  Slots slots_;
  LivePeak now_;
  LivePeak peak_;
  bool peak_unnamed_ = false;
};

}  // namespace

std::vector<LiveMemory> live_memory(const Graph& graph) {
  std::vector<LiveMemory> all;
  for (const Program& program : graph.programs) {
    LiveWalk walk(graph, program);
    walk.section(Section::init);
    LiveMemory memory;
    memory.first = walk.section(Section::first);
    walk.section(Section::body);
    memory.steady = walk.section(Section::body);
    all.push_back(memory);
  }
  return all;
}

std::vector<Bytes> live_at_launch(const Graph& graph) {
  LiveWalk walk(graph, graph.programs.front());
  walk.section(Section::init);
  walk.section(Section::first);
  walk.section(Section::body);
  std::vector<Bytes> bytes(graph.ops.size());
  walk.at_launch = &bytes;
  walk.section(Section::body);
  return bytes;
}

}  // namespace foregather::sim
