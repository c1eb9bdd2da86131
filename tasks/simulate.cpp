#include "tasks/simulate.h"

#include <algorithm>
#include <chrono>

#include "core/compare/replayed.h"
#include "core/ir/dump.h"
#include "core/plan/workload_toml.h"
#include "sim/engine/bounds.h"
#include "sim/memory/memory_bound.h"
#include "sim/passes/registry.h"
#include "tasks/busy_figures.h"
#include "tasks/interval.h"
#include "tasks/memory_figures.h"
#include "tasks/rates.h"
#include "tasks/record_run.h"
#include "tasks/schedule.h"
#include "tasks/stages.h"
#include "tasks/stored_prediction.h"
#include "tasks/version.h"

namespace foregather::tasks {
namespace {

using Clock = std::chrono::steady_clock;

run::RunInfo run_info(const SimulateRequest& request, const Schedule& schedule) {
  run::RunInfo info;
  info.name = schedule.name;
  info.kind = run::RunKind::predicted;
  info.tool = version();
  info.source = request.sources.paths.front();
  info.source_text = schedule.source_text;
  if (request.sources.step) info.options = fmt::format("--step {}\n", *request.sources.step);
  for (const std::string& set : request.sets) info.options += "--set " + set + "\n";
  for (const std::string& pass : request.what_if) info.options += "--what-if " + pass + "\n";
  info.inputs = schedule.digests;
  info.hardware = schedule.hardware.name;
  info.strategy = schedule.replays_measured ? run::kReplay : schedule.strategy;
  info.world_size = schedule.graph.world_size;
  info.parameters = schedule.graph.parameters;
  info.tokens_per_rank_step = schedule.graph.tokens_per_rank_step;
  info.model_flops_per_rank_step = schedule.graph.model_flops_per_rank_step;
  info.capacity = schedule.capacity;
  info.outside_allocator = schedule.outside_allocator;
  return info;
}

void fill_header(const SimulateRequest& request, const Schedule& schedule, Summary& summary) {
  summary.source = request.sources.paths.front();
  summary.name = schedule.name;
  summary.model = schedule.model;
  summary.strategy = schedule.strategy;
  summary.batch = schedule.batch;
  summary.hardware = schedule.hardware.name;
  summary.world_size = schedule.graph.world_size;
  summary.parameters = schedule.graph.parameters;
  summary.tokens_per_rank_step = schedule.graph.tokens_per_rank_step;
  summary.memory_model = request.memory_model;
  summary.capacity = schedule.capacity;
  summary.outside_allocator = schedule.outside_allocator;
  for (const sim::PassNote& note : schedule.what_if)
    summary.what_if.push_back({note.pass, note.did, note.changed});
  if (schedule.estimator_peak) summary.argument_bytes = schedule.argument_bytes;
  summary.warnings = schedule.warnings;
  for (const RankClass& rank_class : schedule.graph.classes) {
    ClassFigures figures;
    figures.name = schedule.graph.text(rank_class.name);
    const auto ranks = schedule.graph.ranks_of(rank_class.ranks);
    figures.ranks.assign(ranks.begin(), ranks.end());
    summary.classes.push_back(std::move(figures));
  }
}

void fill_rates(const Schedule& schedule, Summary& summary) {
  for (ClassFigures& figures : summary.classes) {
    if (!figures.times) continue;
    figures.tokens_per_second = tokens_per_second(schedule.graph, figures.times->step);
    figures.mfu =
        mfu(schedule.graph, schedule.hardware, figures.times->step, schedule.changes.compute);
  }
  summary.tokens_per_second = summary.slow().tokens_per_second;
  summary.mfu = summary.slow().mfu;
}

void fill_time_bounds(const Schedule& schedule, bool converged, Summary& summary) {
  Ns largest = 0;
  for (std::size_t c = 0; c < summary.classes.size(); ++c) {
    ClassFigures& figures = summary.classes[c];
    if (!figures.times) continue;
    const Ns step = figures.times->step;
    const Ns bound =
        sim::step_time_bounds(schedule.graph, schedule.graph.classes[c], schedule.prices).bound();
    largest = std::max(largest, bound);
    // A step that has not settled may beat the bound of the steady one: then it is the best known.
    figures.bound = converged ? bound : std::min(step, bound);
  }
  summary.bound = converged ? largest : std::min(*summary.step_time(), largest);
}

void fill_memory_bounds(const Graph& graph, Summary& summary) {
  if (graph.storages.empty()) return;
  for (std::size_t c = 0; c < summary.classes.size(); ++c) {
    Bytes& bound = summary.classes[c].memory_bound;
    bound = sim::peak_memory_bound(graph, graph.classes[c].program);
    summary.memory_bound = std::max(summary.memory_bound, bound);
  }
}

// By how much a what-if has a class begin later than it did.
Ns late_by(const Schedule& schedule, std::size_t rank_class) {
  if (!schedule.as_recorded) return 0;
  const std::vector<RankClass>& before = schedule.as_recorded->graph.classes;
  return schedule.graph.classes[rank_class].start_delay -
         (rank_class < before.size() ? before[rank_class].start_delay : 0);
}

// The step of a recorded run is the span of its device work: it has no step before. What came late
// by a what-if is waited for. One recording of all ranks has one span.
void begin_with_device(const Schedule& schedule, run::Run& run, bool is_changed) {
  std::optional<Ns> first;
  for (std::size_t s = 0; s < run.steps.size(); ++s) {
    const run::OpSpan ops = run::ops_of(run, run::StepRow(s));
    if (ops.first == ops.last) continue;
    run.steps[s].begin = run.ops.start[ops.first];
    if (is_changed) run.steps[s].begin -= late_by(schedule, run.steps[s].rank_class.row());
    first = std::min(first.value_or(run.steps[s].begin), run.steps[s].begin);
  }
  if (!schedule.is_one_recording || !first) return;
  for (run::StepInfo& step : run.steps) step.begin = *first;
}

// Groups have the ranks that the recording names, not only those that were recorded.
void state_group_sizes(const Schedule& schedule, run::Run& run) {
  const Graph& graph = schedule.graph;
  for (std::size_t c = 0; c < graph.communicators.size(); ++c) {
    const Group& group = graph.at(graph.communicators[c].group);
    const auto known = schedule.group_sizes.find(std::string(graph.text(group.name)));
    if (known != schedule.group_sizes.end()) run.communicators[c].ranks = known->second;
  }
}

// Bytes that the recording's own allocator held are not replayed.
void fill_recorded(const Schedule& schedule, Outcome& outcome) {
  begin_with_device(schedule, outcome.run, true);
  state_group_sizes(schedule, outcome.run);
  for (const rebuild::RebuiltRank& rank : schedule.recorded) {
    std::optional<ClockFigures> clock;
    if (rank.clock) clock = {rank.clock->offset, rank.clock->uncertainty};
    outcome.summary.recorded.push_back({rank.source, rank.rank, rank.measured, rank.unexplained,
                                        rank.pinned, rank.ops, rank.streams, rank.recorded_deps,
                                        rank.inferred_deps, rank.clock_shift, clock, rank.matched,
                                        rank.clock.has_value() || schedule.is_one_recording});
  }
}

// The run says what the summary does, whichever model of memory that asked.
void store_peaks(const Summary& summary, run::Run& run) {
  for (run::StepInfo& step : run.steps) {
    const ClassFigures& figures = summary.classes[step.rank_class.row()];
    const auto& peaks =
        step.kind == run::StepKind::first ? figures.first_memory.peaks : figures.memory.peaks;
    step.peak_requested = peaks.requested;
    step.peak_allocated = peaks.allocated;
    step.peak_active = peaks.active;
    step.peak_reserved = peaks.reserved;
  }
}

// The same without any what-if: what changed.
Status fill_as_recorded(const Schedule& schedule, Summary& summary) {
  if (!schedule.as_recorded || !summary.step_time()) return {};
  const AsRecorded& before = *schedule.as_recorded;
  const auto simulation = sim::simulate(before.graph, before.prices, schedule.engine);
  if (!simulation) return tl::unexpected(simulation.error());
  run::Run run = record_run(before.graph, before.prices, *simulation);
  begin_with_device(schedule, run, false);
  Summary unchanged;
  unchanged.classes.resize(before.graph.classes.size());
  fill_times(run, unchanged);
  // Communication of the rank that is slowest now: another's would be no change.
  summary.as_recorded = {unchanged.slow().times->step,
                         unchanged.classes[summary.slowest].times->busy.exposed};
  return {};
}

// The keys of a workload that its schedule is priced by, as --set takes them; a dump has none.
std::vector<std::string> price_sets(const SimulateRequest& request, const Schedule& schedule) {
  auto workload =
      plan::parse_workload(schedule.source_text, request.sources.paths.front(), request.sets);
  if (!workload) workload = plan::machine_of_sets(request.sets);
  std::vector<std::string> sets;
  if (!workload) return sets;
  const plan::Train& train = workload->train;
  if (train.attention == plan::Attention::flash) sets.emplace_back("train.attention=flash");
  if (train.attention == plan::Attention::cudnn) sets.emplace_back("train.attention=cudnn");
  if (train.attention_speed != 1)
    sets.push_back(fmt::format("train.attention_speed={}", train.attention_speed));
  return sets;
}

}  // namespace

Bytes ClassFigures::reserved() const {
  return std::max(memory.peaks.reserved, first_memory.peaks.reserved);
}

std::optional<Ns> Summary::step_time() const {
  if (classes.empty() || !slow().times) return std::nullopt;
  return slow().times->step;
}

std::optional<Ns> Summary::first_step() const {
  std::optional<Ns> longest;
  for (const ClassFigures& figures : classes) longest = std::max(longest, figures.first_step);
  return longest;
}

Ns Summary::measured_step_time() const {
  Ns longest = 0;
  for (const RecordedFigures& rank : recorded) longest = std::max(longest, rank.measured);
  return longest;
}

Bytes Summary::reserved() const {
  Bytes most = 0;
  for (const ClassFigures& figures : classes) most = std::max(most, figures.reserved());
  return most;
}

std::optional<Bytes> Summary::margin() const {
  if (oom) return std::nullopt;
  return capacity - outside_allocator - reserved();
}

std::optional<Bytes> Summary::margin(const ClassFigures& figures) const {
  if (oom) return std::nullopt;
  return capacity - outside_allocator - figures.reserved();
}

Result<Outcome> simulate(const SimulateRequest& asked) {
  const auto begin = Clock::now();
  SimulateRequest request = asked;
  const auto databases = open_stored_prediction(request);
  if (!databases) return tl::unexpected(databases.error());
  const auto what_if = sim::parse_passes(request.what_if);
  if (!what_if) return tl::unexpected(what_if.error());
  auto schedule = load_schedule(request.sources, request.sets, *what_if);
  if (!schedule) return tl::unexpected(schedule.error());
  if (request.memory_model == MemoryModel::thunder_estimator && !schedule->estimator_peak)
    return fail_at("--memory-model", "thunder-estimator needs a Thunder trace as SOURCE");
  if (request.memory_model == MemoryModel::thunder_estimator && !request.what_if.empty())
    schedule->warnings.push_back(
        "--memory-model thunder-estimator: the peak is that of the trace as it was read, without "
        "--what-if");
  if (request.dump && schedule->changes != sim::PriceChanges())
    schedule->warnings.emplace_back(
        "--dump: a schedule has no prices, so what --what-if scale changed is not in it");
  const auto sets = request.dump ? price_sets(request, *schedule) : std::vector<std::string>();
  if (!sets.empty())
    schedule->warnings.push_back(fmt::format(
        "--dump: a schedule has no prices: simulate it with --set {}", fmt::join(sets, " --set ")));
  schedule->engine.memory =
      request.memory_model == MemoryModel::allocator && schedule->recorded.empty();
  const bool has_memory = !schedule->graph.storages.empty();
  schedule->engine.record_memory = request.record_memory && schedule->engine.memory && has_memory;
  const auto simulation = sim::simulate(schedule->graph, schedule->prices, schedule->engine);
  if (!simulation) {
    Error error = simulation.error();
    if (error.place.empty()) error.place = request.sources.paths.front();
    return tl::unexpected(std::move(error));
  }
  const auto end = Clock::now();

  Outcome outcome;
  outcome.inputs = schedule->inputs;
  outcome.inputs.insert(outcome.inputs.end(), databases->begin(), databases->end());
  if (request.dump) outcome.dump = dump(schedule->graph);
  fill_header(request, *schedule, outcome.summary);
  outcome.run = record_run(schedule->graph, schedule->prices, *simulation);
  outcome.run.about = run_info(request, *schedule);
  outcome.summary.is_measured = schedule->replays_measured;
  outcome.summary.has_memory = has_memory;
  if (!schedule->recorded.empty()) fill_recorded(*schedule, outcome);
  fill_memory(schedule->graph, *simulation, outcome.summary);
  if (request.memory_model == MemoryModel::thunder_estimator)
    fill_estimate(*schedule->estimator_peak, outcome.summary);
  if (request.memory_model != MemoryModel::allocator) store_peaks(outcome.summary, outcome.run);
  if (!simulation->oom) {
    fill_times(outcome.run, outcome.summary);
    fill_rates(*schedule, outcome.summary);
  }
  if (request.ranges) {
    fill_memory_bounds(schedule->graph, outcome.summary);
    if (!simulation->oom) fill_time_bounds(*schedule, simulation->converged, outcome.summary);
    const Status filled = schedule->recorded.empty() ? fill_intervals(*schedule, outcome.summary)
                                                     : fill_as_recorded(*schedule, outcome.summary);
    if (!filled) return tl::unexpected(filled.error());
  }
  for (std::string& warning : warnings_of(*simulation))
    outcome.summary.warnings.push_back(std::move(warning));
  outcome.run.about.warnings = outcome.summary.warnings;
  outcome.summary.simulated_in =
      std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin).count();
  return outcome;
}

}  // namespace foregather::tasks
