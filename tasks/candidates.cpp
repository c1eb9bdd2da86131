#include "tasks/candidates.h"

#include <algorithm>

#include "core/plan/block_ranges.h"
#include "core/plan/lower.h"
#include "core/plan/workload_keys.h"
#include "core/plan/workload_warnings.h"
#include "sim/engine/bounds.h"
#include "sim/memory/host_order.h"
#include "sim/memory/live.h"
#include "sim/memory/memory_bound.h"
#include "sim/passes/registry.h"
#include "tasks/simulate.h"

namespace foregather::tasks {
namespace {

bool same(const sim::EngineOptions& a, const sim::EngineOptions& b) {
  return a.contention == b.contention && a.capacity == b.capacity && a.alloc == b.alloc;
}

// simulate() puts what has no place at the source.
Error placed(Error error, const std::string& source) {
  if (error.place.empty()) error.place = source;
  return error;
}

bool has_one_order(const Program& program) {
  return std::ranges::all_of(
      std::array{Section::init, Section::first, Section::body},
      [&](Section section) { return sim::has_one_host_order(program, section); });
}

// What the allocator is asked for at one time, which follows from the schedule where its host
// threads have one order.
Bytes memory_floor(const Graph& graph) {
  if (!std::ranges::all_of(graph.programs, has_one_order)) return sim::peak_memory_bound(graph);
  Bytes most = 0;
  for (const sim::LiveMemory& memory : sim::live_memory(graph))
    most = std::max({most, memory.first.bytes, memory.steady.bytes});
  return most;
}

sim::Hardware with_clock(sim::Hardware hardware, double clock) {
  hardware.compute.sustained_clock = clock;
  hardware.compute.memory_bound_power = 1;
  return hardware;
}

}  // namespace

std::string Candidates::schedule_key(const Candidate& candidate) {
  std::string key;
  for (const std::string& set : candidate.sets)
    if (!is_price_key(set.substr(0, set.find('=')))) key += set + '\n';
  return key;
}

Result<run::PointFigures> Candidates::predict_alone(const Candidate& candidate,
                                                    Worker& worker) const {
  SimulateRequest request;
  request.sources.paths = {source_};
  request.sets = candidate.sets;
  request.what_if = candidate.what_if;
  request.record_memory = false;
  return simulate(request).map([&](Outcome outcome) {
    run::PointFigures figures = figures_of(outcome.summary);
    worker.warnings = std::move(outcome.summary.warnings);
    return figures;
  });
}

CandidateGroup::Lowering Candidates::lowering_of(const ReadWorkload& read) {
  return {read.implementation.flash_attention, read.implementation.workspace};
}

Result<Candidates::Shared> Candidates::lowered(const ReadWorkload& read,
                                               CandidateGroup& group) const {
  const CandidateGroup::Lowering key = lowering_of(read);
  if (const auto found = group.lowered_.find(key); found != group.lowered_.end())
    return found->second;
  auto made = lower_workload(read).map([&](Graph graph) {
    auto shared = std::make_shared<SharedSchedule>();
    shared->warnings = plan::state_warnings(read.workload, graph);
    shared->graph = std::make_shared<const Graph>(std::move(graph));
    return Shared(std::move(shared));
  });
  return group.lowered_.emplace(key, std::move(made)).first->second;
}

// Passes that go by times are applied anew for each candidate.
Result<Candidates::Shared> Candidates::rewritten(const ReadWorkload& read,
                                                 const Candidate& candidate,
                                                 CandidateGroup& group) const {
  const std::lock_guard lock(group.mutex_);
  auto before = lowered(read, group);
  const bool has_own = read.workload.parallel.strategy == plan::Strategy::deepcompile;
  if (!before || (candidate.what_if.empty() && !has_own)) return before;
  std::pair<CandidateGroup::Lowering, std::string> key{lowering_of(read), ""};
  for (const std::string& pass : candidate.what_if) key.second += pass + '\n';
  if (const auto found = group.rewritten_.find(key); found != group.rewritten_.end())
    return found->second;
  const auto passes = sim::parse_passes(candidate.what_if);
  if (!passes) return tl::unexpected(passes.error());
  auto after = rewrite(*(*before)->graph, *passes, read.workload, *read.hardware);
  if (!after) {
    return group.rewritten_.emplace(key, tl::unexpected(placed(after.error(), source_)))
        .first->second;
  }
  auto shared = std::make_shared<SharedSchedule>();
  shared->graph = std::make_shared<const Graph>(std::move(after->graph));
  shared->prices = std::move(after->prices);
  shared->warnings = (*before)->warnings;
  for (std::string& warning : warnings_of(after->notes))
    shared->warnings.push_back(std::move(warning));
  if (after->asked_prices) return Shared(std::move(shared));
  return group.rewritten_.emplace(key, Shared(std::move(shared))).first->second;
}

struct Candidates::Prepared {
  ReadWorkload read;
  Shared schedule;
  std::vector<sim::CostTable> prices;
  DeviceLimits limits;
};

Result<Candidates::Prepared> Candidates::prepared(const Candidate& candidate,
                                                  CandidateGroup& group) const {
  auto read = read_workload_source(*text_, source_, candidate.sets, kept_);
  if (!read) return tl::unexpected(read.error());
  auto shared = rewritten(*read, candidate, group);
  if (!shared) return tl::unexpected(shared.error());
  const Graph& graph = *(*shared)->graph;
  std::vector<sim::CostTable> prices{
      priced(graph, read->workload, (*shared)->prices, *read->hardware, true)};
  if (const Status bounded = check_step_length(graph, prices.front()); !bounded)
    return tl::unexpected(placed(bounded.error(), source_));
  auto limits = device_limits(graph, read->workload, *read->hardware);
  if (!limits) return tl::unexpected(placed(limits.error(), source_));
  limits->engine.record_memory = false;
  return Prepared{std::move(*read), std::move(*shared), std::move(prices), *limits};
}

Result<CandidateFloors> Candidates::floors(const Candidate& candidate,
                                           CandidateGroup& group) const {
  if (!text_) return CandidateFloors{};
  const auto ready = prepared(candidate, group);
  if (!ready) return tl::unexpected(ready.error());
  const Graph& graph = *ready->schedule->graph;
  const std::lock_guard lock(group.mutex_);
  const auto [memory, is_new] = group.memory_floors_.try_emplace(ready->schedule, 0);
  if (is_new) memory->second = memory_floor(graph);
  return CandidateFloors{sim::step_time_bounds(graph, ready->prices).bound(),
                         memory->second + ready->limits.outside_allocator, ready->limits.capacity,
                         graph.tokens_per_rank_step, graph.world_size};
}

Result<ScheduleLoads> Candidates::loads(const Candidate& candidate,
                                        std::optional<double> clock) const {
  CandidateGroup group;
  auto ready = prepared(candidate, group);
  if (!ready) return tl::unexpected(ready.error());
  const Graph& graph = *ready->schedule->graph;
  const Program& program = graph.programs.front();
  if (!has_one_order(program)) return fail("the order of its host threads is left open");
  ScheduleLoads loads;
  loads.clock = ready->prices.front().clock;
  if (clock)
    ready->prices.front() = priced(graph, ready->read.workload, ready->schedule->prices,
                                   with_clock(*ready->read.hardware, *clock), true);
  loads.busy = sim::busy_times(graph, graph.classes.front(), ready->prices);
  loads.tokens_per_rank_step = graph.tokens_per_rank_step;
  loads.capacity = ready->limits.capacity;
  const std::vector<Bytes> live = sim::live_at_launch(graph);
  for (const sim::HostPoint point : sim::host_order(program, Section::body)) {
    const Action& action = program.threads[point.thread].actions(Section::body)[point.index];
    if (action.kind != ActionKind::launch) continue;
    const Op& op = graph.ops[action.a];
    if (op.phase == Phase::recompute || op.role != Role::compute) continue;
    loads.launches.push_back({op.kind, op.phase, op.micro_batch, op.scope, op.stream});
    loads.live.push_back(live[action.a] + ready->limits.outside_allocator);
  }
  return loads;
}

Result<RepeatedBlocks> Candidates::blocks(const Candidate& candidate) const {
  const auto read = read_workload_source(*text_, source_, candidate.sets, kept_);
  if (!read) return tl::unexpected(read.error());
  const plan::Model model = plan::build_model(*read->model, read->workload, read->implementation);
  RepeatedBlocks blocks;
  blocks.count =
      static_cast<std::size_t>(std::ranges::count_if(model.modules, &plan::Module::is_block));
  if (read->workload.train.checkpointing == plan::Checkpointing::selective_op) return blocks;
  blocks.recomputed.emplace();
  for (std::size_t block = 0; block < blocks.count; ++block)
    blocks.recomputed->push_back(
        plan::is_recomputed(read->workload.train, static_cast<std::int64_t>(block)));
  return blocks;
}

Result<run::PointFigures> Candidates::predict(const Candidate& candidate, CandidateGroup& group,
                                              Worker& worker) {
  worker.warnings.clear();
  if (!text_) return predict_alone(candidate, worker);
  auto ready = prepared(candidate, group);
  if (!ready) return tl::unexpected(ready.error());
  const Shared& shared = ready->schedule;
  const DeviceLimits& limits = ready->limits;
  if (worker.schedule != shared || !same(worker.options, limits.engine)) {
    worker.engine = std::make_unique<sim::Engine>(shared->graph, limits.engine, plans_,
                                                  std::move(worker.engine));
    worker.reader.begin(*shared->graph);
    worker.schedule = shared;
    worker.options = limits.engine;
  }
  auto simulation = worker.engine->simulate(ready->prices);
  if (!simulation) return tl::unexpected(placed(simulation.error(), source_));
  run::PointFigures figures =
      worker.reader.read(*simulation, *ready->read.hardware, shared->prices.compute, limits);
  figures.strategy = plan::name(ready->read.workload.parallel.strategy);
  worker.warnings = std::move(ready->read.warnings);
  for (const auto& more : {shared->warnings, warnings_of(*simulation)})
    worker.warnings.insert(worker.warnings.end(), more.begin(), more.end());
  figures.warnings = std::ssize(worker.warnings);
  worker.engine->recycle(std::move(*simulation));
  return figures;
}

}  // namespace foregather::tasks
