#include "tasks/execute.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/ir/op_key.h"
#include "core/ir/references.h"
#include "core/store/recording_writer.h"
#include "runtime/plug_in.h"
#include "sim/passes/registry.h"
#include "tasks/chakra_source.h"
#include "tasks/outputs.h"
#include "tasks/recorded_source.h"
#include "tasks/schedule.h"
#include "tasks/sniff.h"
#include "tasks/version.h"

namespace foregather::tasks {
namespace {

constexpr std::size_t kMostThreads = 4096;

// The number of ranks is a key of what is lowered, and a fact of what is not.
Result<bool> takes_world_size(const std::string& source) {
  if (is_chakra(source)) return true;
  const auto recorded = is_recorded(source);
  if (!recorded) return tl::unexpected(recorded.error());
  if (*recorded) return false;
  constexpr Bytes kLongest = 4 * GiB;
  const auto text = read_file(source, kLongest);
  if (!text) return tl::unexpected(text.error());
  const auto kind = sniff(*text, source);
  if (!kind) return tl::unexpected(kind.error());
  return *kind != SourceKind::schedule;
}

Result<Schedule> load(const ExecuteRequest& request) {
  const auto what_if = sim::parse_passes(request.what_if);
  if (!what_if) return tl::unexpected(what_if.error());
  Sources sources{{request.source}, false, {}};
  if (request.backend == "host") sources.defaults = {"cluster.hardware=host"};
  std::vector<std::string> sets = request.sets;
  if (request.ranks) {
    if (*request.ranks == 0) return fail_at("-n", "0 ranks, expected at least one");
    const auto takes = takes_world_size(request.source);
    if (!takes) return tl::unexpected(takes.error());
    if (*takes) sets.push_back(fmt::format("parallel.world_size={}", *request.ranks));
  }
  auto schedule = load_schedule(sources, sets, *what_if);
  if (schedule && request.ranks && schedule->graph.world_size != *request.ranks)
    return fail_at("-n", "{} ranks, but {} is the schedule of {}", *request.ranks, request.source,
                   schedule->graph.world_size);
  return schedule;
}

// What this process could still get, as the kernel estimates it.
std::optional<Bytes> available_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string key; file >> key;) {
    Bytes kib = 0;
    file >> kib;
    if (key == "MemAvailable:") return kib * KiB;
    file.ignore(256, '\n');
  }
  return std::nullopt;
}

// What the host needs for threads; and where it plays the devices, for the peaks that are predicted
// and the buffers of collectives: what is sent, received, compared, and two sums, of two
// collectives at a time.
Status check_machine(const Schedule& schedule, const sim::Simulation& simulation,
                     bool plays_devices) {
  std::size_t threads = 0;
  Bytes memory = 0;
  for (std::size_t c = 0; c < schedule.graph.classes.size(); ++c) {
    const RankClass& rank_class = schedule.graph.classes[c];
    const Program& program = schedule.graph.at(rank_class.program);
    threads += rank_class.ranks.count * (program.streams.size() + program.threads.size());
    Bytes message = 0;
    for (std::uint32_t row = program.ops.first; row < program.ops.end(); ++row)
      message = std::max(message, schedule.graph.at(schedule.graph.ops[row].cost).message_bytes);
    const sim::ClassResult& result = simulation.classes[c];
    const Bytes peak = std::max(result.first.peaks.reserved, result.steady.peaks.reserved);
    constexpr Bytes kBuffers = 10;
    const Bytes rank = peak + kBuffers * std::min(message, kMostBytes / kBuffers);
    const auto ranks = static_cast<Bytes>(rank_class.ranks.count);
    memory += std::min(rank, kMostBytes / ranks) * ranks;
  }
  if (threads > kMostThreads)
    return fail(
        "takes {} threads for streams and hosts of all ranks, expected at most {}: use "
        "fewer ranks",
        threads, kMostThreads);
  const auto available = available_memory();
  if (plays_devices && available && memory > *available)
    return fail(
        "takes about {} for the devices of {} ranks, and this machine has {} available: "
        "use fewer ranks or a smaller model",
        format_bytes(memory), schedule.graph.world_size, format_bytes(*available));
  return {};
}

run::RunInfo info_of(const ExecuteRequest& request, const Schedule& schedule) {
  run::RunInfo info;
  info.name = schedule.name;
  info.kind = run::RunKind::measured;
  info.tool = version();
  info.source = request.source;
  info.source_text = schedule.source_text;
  info.options = fmt::format("--backend {}\n", request.backend);
  for (const std::string& set : request.sets) info.options += "--set " + set + "\n";
  for (const std::string& pass : request.what_if) info.options += "--what-if " + pass + "\n";
  info.hardware = schedule.hardware.name;
  info.strategy = schedule.strategy;
  info.world_size = schedule.graph.world_size;
  info.parameters = schedule.graph.parameters;
  info.tokens_per_rank_step = schedule.graph.tokens_per_rank_step;
  info.model_flops_per_rank_step = schedule.graph.model_flops_per_rank_step;
  info.capacity = schedule.capacity;
  info.outside_allocator = schedule.outside_allocator;
  return info;
}

// What the passes say of speeds is the device's; what they say of the host's is not.
runtime::RunOptions options_of(const ExecuteRequest& request, const Schedule& schedule,
                               const std::optional<runtime::ProcessPlace>& process) {
  runtime::RunOptions options;
  options.process = process;
  options.steps = request.steps;
  options.alloc = schedule.engine.alloc;
  options.capacity = schedule.engine.capacity;
  options.link_scale = schedule.link_scale;
  for (const Cost& cost : schedule.graph.costs) {
    double speed = is_collective(cost.kind) ? 1 : schedule.changes.compute;
    for (const auto& kind : schedule.changes.kinds)
      if (kind.kind == cost.kind) speed *= kind.speed;
    options.speeds.push_back(speed);
  }
  for (const auto& cost : schedule.changes.costs) options.speeds[cost.cost.row()] *= cost.speed;
  return options;
}

void add_warnings(const Schedule& schedule, ExecuteReport& report) {
  report.warnings = schedule.warnings;
  const runtime::BackendReport& backend = report.run.backend;
  if (schedule.changes.host != 1)
    report.warnings.emplace_back("--what-if scale=host changes prices alone: the host is as it is");
  if (backend.overruns > 0)
    report.warnings.push_back(fmt::format(
        "{} of {} ops took longer than the device is rated for, the worst by {:.1f} ms: "
        "the machine is too slow or busy",
        backend.overruns, report.run.ops, static_cast<double>(backend.longest_overrun) / 1e6));
  if (backend.unchecked_collectives > 0)
    report.warnings.push_back(
        fmt::format("{} collectives moved bytes of their own: the schedule does not say which "
                    "buffers are theirs",
                    backend.unchecked_collectives));
}

// Each process of a job records its own rank.
std::string output_of(const ExecuteRequest& request,
                      const std::optional<runtime::ProcessPlace>& process) {
  if (!process) return request.output;
  std::filesystem::path path = request.output;
  const std::string extension = path.extension();
  path.replace_extension(fmt::format("rank{}{}", process->rank, extension));
  return path;
}

std::int64_t launches(const Graph& graph, const RankClass& rank_class, Section section) {
  std::int64_t count = 0;
  for (const HostThread& thread : graph.at(rank_class.program).threads)
    for (const Action& action : thread.actions(section))
      count += action.kind == ActionKind::launch ? 1 : 0;
  return count;
}

// Of all steps; of one rank where each process has one.
std::int64_t ops_of(const Graph& graph, std::uint32_t steps, bool is_one_rank) {
  std::int64_t ops = 0;
  for (const RankClass& each : graph.classes) {
    const std::int64_t of_rank = launches(graph, each, Section::first) +
                                 (std::int64_t{steps} - 1) * launches(graph, each, Section::body);
    ops += is_one_rank ? 0 : of_rank * each.ranks.count;
    if (is_one_rank) ops = std::max(ops, of_rank);
  }
  return ops;
}

}  // namespace

Result<ExecuteReport> execute(const ExecuteRequest& request,
                              const std::function<void(const ExecuteProgress&)>& progress) {
  std::optional<runtime::ProcessPlace> process;
  if (request.backend == "cuda") {
    auto place = runtime::process_place(runtime::process_environment());
    if (!place) return tl::unexpected(place.error());
    process = std::move(*place);
  }
  const auto backend = runtime::open_backend(request.backend);
  if (!backend) return tl::unexpected(backend.error());
  auto schedule = load(request);
  if (!schedule) return tl::unexpected(schedule.error());
  const auto at_source = [&](Error error) {
    if (error.place.empty()) error.place = request.source;
    return tl::unexpected(std::move(error));
  };
  const auto simulation = sim::simulate(schedule->graph, schedule->prices, schedule->engine);
  if (!simulation) return at_source(simulation.error());
  if (const Status fits = check_machine(*schedule, *simulation, request.backend == "host"); !fits)
    return at_source(fits.error());
  const std::string output = output_of(request, process);
  if (const Status apart = check_outputs({output}, schedule->inputs); !apart)
    return tl::unexpected(apart.error());
  auto writer = store::RecordingWriter::create(output);
  if (!writer) return tl::unexpected(writer.error());
  (*writer)->info(info_of(request, *schedule));

  ExecuteReport report;
  report.source = request.source;
  report.name = schedule->name;
  report.backend = request.backend;
  report.hardware = schedule->hardware.name;
  report.world_size = schedule->graph.world_size;
  report.has_memory = !schedule->graph.storages.empty();
  report.output = output;
  runtime::RunOptions options = options_of(request, *schedule, process);
  if (progress)
    options.progress = [&progress, all = ops_of(schedule->graph, options.steps,
                                                process.has_value())](std::int64_t ops) {
      progress({ops, all});
    };
  auto run = runtime::execute(schedule->graph, options, **backend, **writer);
  if (!run && !(*writer)->has_begun()) {
    (*writer)->discard();
    return at_source(run.error());
  }
  if (run) report.run = std::move(*run);
  add_warnings(*schedule, report);
  const Status closed =
      (*writer)->finish(run ? run::RunState::complete : run::RunState::failed, report.warnings);
  if (!run) return at_source(run.error());
  if (!closed) return tl::unexpected(closed.error());
  report.description = (*backend)->description();
  if (report.run.oom) {
    report.oom_storage = schedule->graph.text(schedule->graph.at(report.run.oom->storage).name);
    if (report.run.oom->next)
      report.oom_op = op_key(
          schedule->graph, *report.run.oom->next,
          runtime::ranks_of(schedule->graph).ranks[process ? process->rank : report.run.oom->rank],
          report.run.oom->in_first_step ? 0 : 1);
  }
  return report;
}

}  // namespace foregather::tasks
