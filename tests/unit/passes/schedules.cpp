#include "tests/unit/passes/schedules.h"

#include <algorithm>
#include <stdexcept>

#include "core/ir/op_key.h"
#include "core/ir/validate.h"
#include "sim/memory/host_order.h"
#include "sim/memory/live.h"
#include "sim/passes/registry.h"
#include "tests/support/places.h"

namespace foregather::test {
namespace {

template <class T>
T value(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().text());
  return std::move(*result);
}

}  // namespace

tasks::Schedule loaded(const std::string& path, const std::vector<std::string>& sets,
                       const std::vector<std::string>& passes) {
  return value(tasks::load_schedule(path, sets, value(sim::parse_passes(passes))));
}

tasks::Schedule sample_with(const std::string& name, const std::vector<std::string>& sets,
                            const std::vector<std::string>& passes) {
  return loaded(source_dir() + "/traces/samples/" + name + ".toml", sets, passes);
}

sim::CostTable made_up_prices(const Graph& graph) {
  sim::CostTable table;
  for (const Cost& cost : graph.costs)
    table.prices.push_back(
        {10 * kMicrosecond + (cost.bytes_read + cost.bytes_written) / 1000, kMicrosecond, {}, 0});
  table.sources = {"test"};
  return table;
}

Graph passed(Graph graph, const std::vector<std::string>& passes,
             std::vector<sim::PassNote>* notes) {
  sim::PassTarget target{std::move(graph)};
  target.context.price = [](const Graph& priced, const sim::PriceChanges&) {
    return made_up_prices(priced);
  };
  target.context.device_memory = 80 * GiB;
  auto done = value(sim::apply_passes(value(sim::parse_passes(passes)), target));
  if (notes != nullptr) *notes = std::move(done);
  return std::move(target.graph);
}

Bytes live_peak(const Graph& graph) { return sim::live_memory(graph).front().steady.bytes; }

std::vector<OpId> launches(const Graph& graph, Section section) {
  std::vector<OpId> ops;
  const Program& program = graph.programs.front();
  for (const sim::HostPoint point : sim::host_order(program, section)) {
    const Action& action = program.threads[point.thread].actions(section)[point.index];
    if (action.kind == ActionKind::launch) ops.push_back(OpId(action.a));
  }
  return ops;
}

std::int64_t body_flops(const Graph& graph) {
  std::int64_t flops = 0;
  for (const OpId op : launches(graph)) {
    const Role role = graph.at(op).role;
    if (role != Role::cast && role != Role::copy_in && role != Role::copy_out)
      flops += graph.at(graph.at(op).cost).flops;
  }
  return flops;
}

std::int64_t all_flops(const Graph& graph) {
  std::int64_t flops = 0;
  for (const OpId op : launches(graph)) flops += graph.at(graph.at(op).cost).flops;
  return flops;
}

std::size_t count(const Graph& graph, Role role, Section section) {
  std::size_t ops = 0;
  for (const OpId op : launches(graph, section)) ops += graph.at(op).role == role ? 1 : 0;
  return ops;
}

Bytes gathered_bytes(const Graph& graph) {
  Bytes bytes = 0;
  for (const OpId op : launches(graph))
    if (graph.at(op).role == Role::gather) bytes += graph.at(graph.at(op).cost).message_bytes;
  return bytes;
}

std::vector<std::string> keys(const Graph& graph) {
  std::vector<std::string> all;
  for (std::size_t p = 0; p < graph.programs.size(); ++p) {
    const Range ops = graph.programs[p].ops;
    for (std::uint32_t row = ops.first; row < ops.end(); ++row) {
      std::string key = op_key(graph, OpId(row), static_cast<std::uint32_t>(p), 1);
      all.push_back(key.substr(0, key.find('@')));
    }
  }
  std::sort(all.begin(), all.end());
  return all;
}

std::string problems(const Graph& graph) {
  std::string text;
  for (const Problem& problem : validate(graph, 5)) text += problem.message + "\n";
  return text;
}

}  // namespace foregather::test
