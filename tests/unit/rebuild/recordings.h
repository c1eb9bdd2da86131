// Small recordings by hand.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "core/ir/graph.h"
#include "core/rebuild/rebuild.h"
#include "core/run/recording.h"
#include "sim/cost/price.h"
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
sim::Simulation replayed_once(const Graph& graph, const sim::PriceOptions& options = {});

rebuild::Rebuilt rebuilt(const run::Recording& recording, std::optional<std::int64_t> step = {});

/// Ends of the ops of the first class in microseconds, in the order of the recording's starts, with
/// compute and links so many times as fast.
std::vector<Ns> replayed(const Graph& graph, double compute = 1, double links = 1);

/// As `scale=host` of a large factor.
void without_host_time(Graph& graph);

}  // namespace foregather::test
