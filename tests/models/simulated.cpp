#include "tests/models/simulated.h"

#include <stdexcept>

#include "sim/memory/host_order.h"
#include "tests/support/places.h"

namespace foregather::test {

tasks::Schedule sample(const std::string& name, const std::vector<std::string>& sets) {
  auto schedule =
      tasks::load_schedule(source_dir() + "/traces/samples/" + name + ".toml", sets, {});
  if (!schedule) throw std::runtime_error(schedule.error().text());
  return std::move(*schedule);
}

sim::Simulation simulated(const tasks::Schedule& schedule) {
  auto simulation = sim::simulate(schedule.graph, schedule.prices, schedule.engine);
  if (!simulation) throw std::runtime_error(simulation.error().text());
  return std::move(*simulation);
}

Ns step_time(const sim::Simulation& simulation) {
  const sim::StepResult& step = simulation.classes.front().steady;
  return step.time();
}

Ns step_time(const std::string& name, const std::vector<std::string>& sets) {
  return step_time(simulated(sample(name, sets)));
}

std::vector<OpId> body_ops(const Graph& graph) {
  const Program& program = graph.programs.front();
  std::vector<OpId> ops;
  for (const sim::HostPoint& point : sim::host_order(program, Section::body)) {
    const Action& action = program.threads[point.thread].actions(Section::body)[point.index];
    if (action.kind == ActionKind::launch) ops.emplace_back(action.a);
  }
  return ops;
}

Bytes bytes_of(const Graph& graph, Cause cause) {
  Bytes bytes = 0;
  for (const Storage& storage : graph.storages)
    if (storage.cause == cause) bytes += storage.bytes;
  return bytes;
}

}  // namespace foregather::test
