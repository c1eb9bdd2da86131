#include "tasks/stages.h"

#include <algorithm>

#include "core/base/text.h"
#include "sim/cost/outside.h"
#include "sim/passes/registry.h"
#include "tasks/native_allocator.h"

namespace foregather::tasks {
namespace {

/// Where DeepCompile's own passes are.
struct OwnPasses {
  bool are_first = false;      ///< before all of the what-ifs
  bool despite_order = false;  ///< the order given does nothing
};

// They come before the first what-if that reorders collectives, so that the others see the graphs
// as zero3_compile leaves them; an order given takes their place, unless it does nothing.
Result<std::vector<sim::Pass>> with_own_passes(const std::vector<sim::Pass>& what_if,
                                               const plan::Workload& workload,
                                               const OwnPasses& where) {
  const plan::DeepCompilePasses own = workload.parallel.deepcompile_passes;
  if (workload.parallel.strategy != plan::Strategy::deepcompile ||
      own == plan::DeepCompilePasses::none)
    return what_if;
  const auto first = std::find_if(what_if.begin(), what_if.end(), [&](const sim::Pass& pass) {
    return (pass.name == "order" && !where.despite_order) || pass.name == "prefetch" ||
           pass.name == "selective-gather";
  });
  if (first != what_if.end() && first->name == "order") return what_if;
  std::vector<std::string> texts{"order=fast-free"};
  if (own == plan::DeepCompilePasses::full && first == what_if.end())
    texts.insert(texts.end(), {"prefetch=budget", "selective-gather"});
  auto passes = sim::parse_passes(texts);
  if (!passes) return passes;
  const auto from = where.are_first ? what_if.begin() : first;
  passes->insert(passes->begin(), what_if.begin(), from);
  passes->insert(passes->end(), from, what_if.end());
  return passes;
}

}  // namespace

sim::PriceOptions price_options(const Graph& graph, const plan::Workload& machine,
                                const sim::PriceChanges& changes) {
  sim::PriceOptions options;
  options.ranks = graph.world_size;
  options.link_bandwidth_scale = machine.cluster.link_bandwidth_scale * changes.links;
  options.compute_scale = changes.compute;
  options.attention_speed = machine.train.attention_speed;
  options.cudnn_attention =
      machine.train.compute != DType::f32 && (machine.train.attention == plan::Attention::sdpa ||
                                              machine.train.attention == plan::Attention::cudnn);
  options.attention_is_stated = machine.train.attention == plan::Attention::flash ||
                                machine.train.attention == plan::Attention::cudnn;
  options.gpus_per_node = std::max(machine.cluster.gpus_per_node, 1U);
  return options;
}

namespace {

Result<Rewritten> rewrite_in_order(Graph graph, const std::vector<sim::Pass>& what_if,
                                   const plan::Workload& machine, const sim::Hardware& hardware,
                                   const OwnPasses& own) {
  const auto passes = with_own_passes(what_if, machine, own);
  if (!passes) return tl::unexpected(passes.error());
  Rewritten rewritten;
  sim::PassTarget target{std::move(graph)};
  target.context.device_memory = static_cast<Bytes>(hardware.memory.capacity);
  target.context.price = [&](const Graph& schedule, const sim::PriceChanges& changes) {
    rewritten.asked_prices = true;
    sim::CostTable table =
        sim::price(schedule, hardware, price_options(schedule, machine, changes));
    sim::change_prices(changes, schedule, table);
    return table;
  };
  auto notes = sim::apply_passes(*passes, target);
  if (!notes) return tl::unexpected(notes.error());
  rewritten.notes = std::move(*notes);
  rewritten.graph = std::move(target.graph);
  rewritten.prices = std::move(target.prices);
  return rewritten;
}

}  // namespace

Result<Rewritten> rewrite(Graph graph, const std::vector<sim::Pass>& what_if,
                          const plan::Workload& machine, const sim::Hardware& hardware) {
  // DeepCompile's own passes work on what the what-ifs leave. Where that is no schedule of its own
  // any more they come first: else a what-if would be compared to a run that has them.
  if (machine.parallel.strategy == plan::Strategy::deepcompile && !what_if.empty()) {
    auto rewritten = rewrite_in_order(Graph(graph), what_if, machine, hardware, {});
    if (!rewritten) return rewritten;
    const auto is_idle_order = [](const sim::PassNote& note) {
      return note.pass.starts_with("order") && !note.changed;
    };
    const OwnPasses own{std::ranges::any_of(rewritten->notes, &sim::PassNote::is_foreign),
                        std::ranges::any_of(rewritten->notes, is_idle_order)};
    if (!own.are_first && !own.despite_order) return rewritten;
    return rewrite_in_order(std::move(graph), what_if, machine, hardware, own);
  }
  return rewrite_in_order(std::move(graph), what_if, machine, hardware, {});
}

std::vector<std::string> warnings_of(const std::vector<sim::PassNote>& notes) {
  std::vector<std::string> warnings;
  for (const sim::PassNote& note : notes)
    if (!note.changed) warnings.push_back(fmt::format("--what-if {}: {}", note.pass, note.did));
  return warnings;
}

std::vector<std::string> warnings_of(const sim::Simulation& simulation) {
  std::vector<std::string> warnings;
  if (!simulation.oom && !simulation.converged)
    warnings.push_back(fmt::format("the step had not settled after {} steps", simulation.steps));
  if (simulation.unresolved_synchronizations != 0)
    warnings.push_back(
        fmt::format("{} allocator synchronisations with other rank classes taken as instant",
                    simulation.unresolved_synchronizations));
  return warnings;
}

sim::CostTable priced(const Graph& graph, const plan::Workload& machine,
                      const sim::PriceChanges& changes, const sim::Hardware& hardware,
                      bool has_host) {
  sim::CostTable table = sim::price(graph, hardware, price_options(graph, machine, changes));
  sim::change_prices(changes, graph, table);
  if (!has_host) {
    table.host = {};
    table.host.launch_queue = 0;
    for (sim::Price& price : table.prices) price.host = 0;
  }
  return table;
}

Status check_step_length(const Graph& graph, const sim::CostTable& table) {
  constexpr double kLongestStep = 1e17;  // three years
  Ns longest = 0;
  for (const sim::Price& price : table.prices) longest = std::max(longest, price.duration);
  if (static_cast<double>(longest) * static_cast<double>(graph.ops.size()) <= kLongestStep)
    return {};
  double sum = 0;
  for (const Op& op : graph.ops) sum += static_cast<double>(table.prices[op.cost.row()].duration);
  if (sum <= kLongestStep) return {};
  return fail(
      "the ops of a step take {:.0f} years: check the hardware's figures and the workload's "
      "sizes",
      sum / 3.15e16);
}

Result<DeviceLimits> device_limits(const Graph& graph, const plan::Workload& machine,
                                   const sim::Hardware& hardware) {
  const auto config = parse_native_alloc_conf(machine.allocator_conf);
  if (!config)
    return fail_at(machine.place_of({"allocator.conf"}), "allocator.conf: {}",
                   config.error().message);
  DeviceLimits limits;
  limits.engine.alloc = *config;
  limits.engine.contention =
      machine.cluster.contention && hardware.intra.kind != sim::IntraLink::shared_memory;
  limits.capacity = static_cast<Bytes>(hardware.memory.capacity);
  limits.outside_allocator = sim::outside_allocator_bytes(graph, hardware);
  limits.engine.capacity = limits.capacity - limits.outside_allocator;
  if (limits.engine.capacity <= 0)
    return fail_at(machine.place_of({"cluster.hardware"}),
                   "{} holds {}, but context and libraries take {} outside the allocator",
                   hardware.name, format_bytes(limits.capacity),
                   format_bytes(limits.outside_allocator));
  return limits;
}

}  // namespace foregather::tasks
