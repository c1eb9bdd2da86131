#include "tests/bench/reference_step.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdlib>

#include "core/plan/lower.h"
#include "core/plan/model.h"
#include "core/plan/workload_toml.h"
#include "tests/support/places.h"

namespace foregather::bench {
namespace {

template <class T>
T checked(Result<T> result) {
  if (result) return std::move(*result);
  fmt::print(stderr, "{}\n", result.error().message);
  std::abort();
}

}  // namespace

ReferenceStep reference_step(const std::vector<std::string>& sets) {
  std::vector<std::string> all{"train.optimizer_impl=foreach"};
  all.insert(all.end(), sets.begin(), sets.end());
  ReferenceStep step;
  step.workload = checked(
      plan::read_workload(test::source_dir() + "/traces/samples/llama3_70b_fsdp2.toml", all));
  const plan::ModelConfig config = checked(plan::read_model_config(step.workload.model_config));
  if (!plan::resolve_workload(step.workload, config)) std::abort();
  plan::Implementation implementation;
  implementation.repeat_kv = true;  // copies, so that there are more than 8,000 launches
  step.model = plan::build_model(config, step.workload.train, implementation);
  step.hardware = checked(sim::load_hardware(step.workload.cluster.hardware));
  step.pricing.gpus_per_node = step.workload.cluster.gpus_per_node;
  step.engine.contention = step.workload.cluster.contention;
  step.engine.capacity = static_cast<Bytes>(step.hardware.memory.capacity);
  step.engine.record_memory = false;
  return step;
}

Graph lowered(const ReferenceStep& step) { return checked(plan::lower(step.model, step.workload)); }

Graph apart(Graph graph) {
  const RankClass all = graph.classes.front();
  graph.classes.assign(graph.world_size, all);
  for (std::uint32_t rank = 0; rank < graph.world_size; ++rank)
    graph.classes[rank].ranks = {all.ranks.first + rank, 1};
  return graph;
}

double peak_rss_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

StepCounts count(const Graph& graph) {
  StepCounts counts;
  for (const RankClass& rank_class : graph.classes)
    for (const HostThread& thread : graph.at(rank_class.program).threads)
      for (const Action& action : thread.actions(Section::body)) {
        switch (action.kind) {
          case ActionKind::launch: ++counts.launches; break;
          case ActionKind::alloc:
          case ActionKind::free:
          case ActionKind::release:
          case ActionKind::record_stream: ++counts.allocator_calls; break;
          default: break;
        }
      }
  return counts;
}

}  // namespace foregather::bench
