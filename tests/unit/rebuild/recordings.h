// Small recordings by hand.
#pragma once

#include <string_view>

#include "core/ir/graph.h"
#include "core/run/recording.h"
#include "sim/engine/engine.h"

namespace foregather::test {

/// Writes a recording row by row; times in microseconds.
class RecordingWriter {
 public:
  run::LaneRow lane(std::string_view process, std::string_view thread);
  /// A call of the runtime; its correlation is `correlation`.
  void call(run::LaneRow thread, std::string_view name, Ns start, Ns end,
            std::uint32_t correlation);
  void kernel(run::LaneRow stream, std::string_view name, Ns start, Ns end,
              std::uint32_t correlation);
  /// A kernel that no call launched, as far as this recording shows.
  void kernel(run::LaneRow stream, std::string_view name, Ns start, Ns end);
  /// That kernel is an all-reduce of float32 in a group.
  void describe(std::size_t kernel, std::string_view group, std::uint32_t size,
                std::int64_t sequence, std::int64_t elements);
  /// What the allocator of the first GPU holds.
  void memory(run::LaneRow thread, Ns time, Bytes allocated, Bytes reserved);
  void range(run::LaneRow thread, std::string_view name, Ns start, Ns end);

  run::Recording recording;

 private:
  void activity(run::LaneRow stream, std::string_view name, Ns start, Ns end,
                run::CorrelationId correlation);
};

/// One step at the recorded times: without memory, contention and a limit of launches.
sim::Simulation replayed_once(const Graph& graph);

}  // namespace foregather::test
