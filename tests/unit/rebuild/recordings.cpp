#include "recordings.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "core/ir/validate.h"
#include "sim/cost/hardware.h"
#include "sim/cost/price.h"

namespace foregather::test {

run::LaneRow RecordingWriter::lane(std::string_view process, std::string_view thread) {
  recording.lanes.push_back({recording.strings.intern(process), recording.strings.intern(thread)});
  return run::LaneRow(recording.lanes.size() - 1);
}

void RecordingWriter::call(run::LaneRow thread, std::string_view name, Ns start, Ns end,
                           std::uint32_t correlation) {
  run::CallColumns& rows = recording.calls;
  rows.lane.push_back(thread);
  rows.name.push_back(recording.strings.intern(name));
  rows.start.push_back(start * kMicrosecond);
  rows.end.push_back(end * kMicrosecond);
  rows.correlation.emplace_back(correlation);
  rows.external.emplace_back();
  recording.correlations = std::max<std::size_t>(recording.correlations, correlation + 1);
}

void RecordingWriter::activity(run::LaneRow stream, std::string_view name, Ns start, Ns end,
                               run::CorrelationId correlation) {
  run::ActivityColumns& rows = recording.activities;
  rows.lane.push_back(stream);
  rows.kind.push_back(run::ActivityKind::kernel);
  rows.name.push_back(recording.strings.intern(name));
  rows.start.push_back(start * kMicrosecond);
  rows.end.push_back(end * kMicrosecond);
  rows.correlation.push_back(correlation);
  rows.external.emplace_back();
  rows.bytes.push_back(0);
  rows.threads.push_back(0);
  rows.collective.emplace_back();
}

void RecordingWriter::kernel(run::LaneRow stream, std::string_view name, Ns start, Ns end,
                             std::uint32_t correlation) {
  activity(stream, name, start, end, run::CorrelationId(correlation));
}

void RecordingWriter::kernel(run::LaneRow stream, std::string_view name, Ns start, Ns end) {
  activity(stream, name, start, end, {});
}

void RecordingWriter::describe(std::size_t kernel, std::string_view group, std::uint32_t size,
                               std::int64_t sequence, std::int64_t elements) {
  run::RecordedCollective collective;
  collective.name = recording.strings.intern("allreduce");
  collective.dtype = recording.strings.intern("Float");
  collective.group = recording.strings.intern(group);
  collective.in_elements = collective.out_elements = elements;
  collective.group_size = size;
  collective.sequence = sequence;
  recording.activities.collective[kernel] = run::CollectiveRow(recording.collectives.size());
  recording.collectives.push_back(collective);
}

void RecordingWriter::memory(run::LaneRow thread, Ns time, Bytes allocated, Bytes reserved) {
  run::MemoryColumns& rows = recording.memory;
  rows.lane.push_back(thread);
  rows.device.push_back(recording.strings.intern("1:0"));
  rows.time.push_back(time * kMicrosecond);
  rows.address.push_back(0);
  rows.bytes.push_back(0);
  rows.total_allocated.push_back(allocated);
  rows.total_reserved.push_back(reserved);
}

void RecordingWriter::range(run::LaneRow thread, std::string_view name, Ns start, Ns end) {
  run::RangeColumns& rows = recording.ranges;
  rows.lane.push_back(thread);
  rows.kind.push_back(run::RangeKind::annotation);
  rows.name.push_back(recording.strings.intern(name));
  rows.start.push_back(start * kMicrosecond);
  rows.end.push_back(end * kMicrosecond);
  rows.external.emplace_back();
  rows.sequence.push_back(-1);
  rows.is_backward.push_back(0);
  rows.collective.emplace_back();
  rows.shapes.emplace_back();
  rows.types.emplace_back();
  rows.values.emplace_back();
}

sim::Simulation replayed_once(const Graph& graph, const sim::PriceOptions& options) {
  std::vector<sim::CostTable> prices{sim::price(graph, sim::Hardware(), options)};
  prices[0].host = sim::HostPrices{.launch_queue = 0};
  sim::EngineOptions engine;
  engine.once = true;
  engine.memory = engine.contention = false;
  const auto simulation = sim::simulate(graph, prices, engine);
  if (!simulation) FAIL(simulation.error().text());
  return *simulation;
}

rebuild::Rebuilt rebuilt(const run::Recording& recording, std::optional<std::int64_t> step) {
  const run::Recording* const one = &recording;
  auto result = rebuild::rebuild({&one, 1}, {step});
  if (!result) FAIL(result.error().text());
  CHECK(validate(result->graph).empty());
  return std::move(*result);
}

std::vector<Ns> replayed(const Graph& graph, double compute, double links) {
  sim::PriceOptions options;
  options.compute_scale = compute;
  options.link_bandwidth_scale = links;
  const sim::Simulation simulation = replayed_once(graph, options);
  std::vector<Ns> ends;
  for (const sim::OpTime& op : simulation.classes[0].steady.ops)
    ends.push_back(op.end / kMicrosecond);
  return ends;
}

void without_host_time(Graph& graph) {
  for (Program& program : graph.programs)
    for (HostThread& thread : program.threads)
      for (auto& section : thread.sections)
        for (Action& action : section)
          if (action.kind == ActionKind::host_delay) action.a = action.b = 0;
}

}  // namespace foregather::test
