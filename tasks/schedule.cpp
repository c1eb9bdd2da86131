#include "tasks/schedule.h"

#include <algorithm>
#include <filesystem>
#include <span>

#include "core/base/file.h"
#include "core/ir/dump.h"
#include "core/ir/validate.h"
#include "core/plan/workload_keys.h"
#include "core/plan/workload_toml.h"
#include "core/plan/workload_warnings.h"
#include "core/store/location.h"
#include "core/store/reader.h"
#include "sim/cost/price.h"
#include "tasks/chakra_source.h"
#include "tasks/machine.h"
#include "tasks/recorded_source.h"
#include "tasks/sniff.h"
#include "tasks/stages.h"
#include "tasks/thunder_source.h"
#include "tasks/workload_source.h"

namespace foregather::tasks {
namespace {

constexpr Bytes kLongestSource = 4 * GiB;

Status set_hardware(const plan::Workload& machine, Schedule& schedule) {
  auto hardware = load_machine(machine.cluster);
  if (!hardware) return at_key(machine, hardware.error());
  if (const Status checked = check_machine(machine, *hardware); !checked) return checked;
  schedule.hardware = std::move(*hardware);
  return {};
}

// A path may name another file in another folder, or at another time.
Status check_inputs(const StoredWorkload& stored, const std::vector<std::string>& files,
                    const FileDigests& now) {
  for (const auto& [path, digest] : stored.inputs) {
    if (std::ranges::find(files, path) == files.end()) continue;
    const auto found = std::ranges::find(now, path, &FileDigests::value_type::first);
    if (found != now.end() && found->second == digest) continue;
    return fail_at(stored.location,
                   "was predicted with {}, {}: go to the folder where it was predicted, or name "
                   "the file by --set, as --set model.config=PATH",
                   path,
                   found == now.end() ? "which is not here" : "and the file here is another one");
  }
  return {};
}

// Fills graph, hardware, model and strategy; returns the machine to price it on.
Result<plan::Workload> read_workload(std::string text, const std::string& source,
                                     const std::vector<std::string>& sets,
                                     const StoredWorkload* stored, Schedule& schedule) {
  const std::vector<std::string> files = workload_files(text, source, sets);
  schedule.inputs.insert(schedule.inputs.end(), files.begin(), files.end());
  schedule.digests = digests_of(files, source);
  if (stored != nullptr)
    if (const Status same = check_inputs(*stored, files, schedule.digests); !same)
      return tl::unexpected(same.error());
  KeptParts parts;
  auto read = read_workload_source(text, source, sets, parts);
  if (!read) return tl::unexpected(read.error());
  auto graph = lower_workload(*read);
  if (!graph) return tl::unexpected(graph.error());
  schedule.warnings = std::move(read->warnings);
  for (std::string& warning : plan::state_warnings(read->workload, *graph))
    schedule.warnings.push_back(std::move(warning));
  schedule.hardware = *read->hardware;
  schedule.source_text = std::move(text);
  schedule.graph = std::move(*graph);
  schedule.model = fmt::format("{}, {} layers", read->model->model_type, read->model->layers);
  schedule.strategy = plan::name(read->workload.parallel.strategy);
  schedule.batch = fmt::format("micro-batch {} × {} tokens", read->workload.train.micro_batch,
                               read->workload.train.seq_len);
  return std::move(read->workload);
}

Result<plan::Workload> read_schedule(const std::string& text, const std::string& source,
                                     const std::vector<std::string>& sets, Schedule& schedule) {
  auto machine = plan::machine_of_sets(sets);
  if (!machine) return machine;
  auto graph = read_dump(text, source);
  if (!graph) return tl::unexpected(graph.error());
  if (graph->classes.empty()) return fail_at(source, "has no rank class, expected at least one");
  const auto problems = validate(*graph, 1);
  if (!problems.empty())
    return fail_at(source, "is no schedule that could run: {}", problems.front().message);
  schedule.graph = std::move(*graph);
  if (const Status loaded = set_hardware(*machine, schedule); !loaded)
    return tl::unexpected(loaded.error());
  if (!machine->is_set("cluster.hardware"))
    schedule.warnings.push_back(
        fmt::format("{}: a schedule has no machine: predicted on {}, set cluster.hardware (and the "
                    "other keys of "
                    "the cluster and the allocator) to those of its workload",
                    source, schedule.hardware.name));
  return machine;
}

// Fills what a workload would, from the trace of `source` and, where given, its backward's.
Result<plan::Workload> read_thunder(std::string text, const std::string& source,
                                    const std::string& backward,
                                    const std::vector<std::string>& sets, Schedule& schedule) {
  WorldSets own = take_world_size(sets);
  if (own.error) return tl::unexpected(*own.error);
  auto machine = plan::machine_of_sets(own.others);
  if (!machine) return machine;
  std::vector<ThunderText> texts;
  texts.push_back({source, std::move(text)});
  if (!backward.empty()) {
    auto more = read_file(backward, kLongestSource);
    if (!more) return tl::unexpected(more.error());
    texts.push_back({backward, std::move(*more)});
    schedule.inputs.push_back(backward);
  }
  traces::ThunderGraphOptions options;
  options.world_size = own.world_size;
  options.gpus_per_node = std::max(machine->cluster.gpus_per_node, 1U);
  auto step = thunder_step(texts, options);
  if (!step) return tl::unexpected(step.error());
  const auto problems = validate(step->graph, 1);
  if (!problems.empty())
    return fail_at(source, "is no schedule that could run: {}", problems.front().message);
  schedule.graph = std::move(step->graph);
  schedule.model = "Thunder trace";
  schedule.strategy = "thunder";
  schedule.source_text = std::move(texts.front().text);
  schedule.estimator_peak = step->estimator_peak;
  schedule.argument_bytes = step->argument_bytes;
  schedule.warnings = std::move(step->warnings);
  if (const Status loaded = set_hardware(*machine, schedule); !loaded)
    return tl::unexpected(loaded.error());
  return machine;
}

// Durations of nodes are what a device needed, contention with whatever ran beside them included:
// they are not slowed again unless the user says so.
Result<plan::Workload> read_chakra(const Sources& sources, const std::vector<std::string>& sets,
                                   Schedule& schedule) {
  WorldSets own = take_world_size(sets);
  if (own.error) return tl::unexpected(*own.error);
  auto machine = plan::machine_of_sets(own.others);
  if (!machine) return machine;
  if (!machine->is_set("cluster.contention")) machine->cluster.contention = false;
  traces::ChakraGraphOptions options;
  options.world_size = own.world_size;
  options.gpus_per_node = std::max(machine->cluster.gpus_per_node, 1U);
  if (const Status loaded = set_hardware(*machine, schedule); !loaded)
    return tl::unexpected(loaded.error());
  options.durations = [&](const Graph& graph) {
    const auto table = sim::price(graph, schedule.hardware, price_options(graph, *machine, {}));
    std::vector<Ns> durations;
    for (const sim::Price& price : table.prices) durations.push_back(price.duration);
    return durations;
  };
  auto step = chakra_step(sources.paths, options);
  if (!step) return tl::unexpected(step.error());
  const auto problems = validate(step->graph, 1);
  if (!problems.empty())
    return fail_at(sources.paths.front(), "is no schedule that could run: {}",
                   problems.front().message);
  schedule.graph = std::move(step->graph);
  schedule.model = "Chakra trace";
  schedule.strategy = "chakra";
  schedule.has_host = false;
  schedule.warnings = std::move(step->warnings);
  schedule.warnings.emplace_back(
      "the memory of Chakra traces is not modelled: nothing is said of peaks, nor of what fits");
  return machine;
}

std::string keys_of(const std::vector<std::string>& sets) {
  std::vector<std::string> keys;
  for (const std::string& set : sets) keys.push_back(set.substr(0, set.find('=')));
  return fmt::format("{}", fmt::join(keys, ", "));
}

// Times are recorded, so the machine is what they were recorded on; the memory is not replayed.
Result<plan::Workload> read_recorded(const Sources& sources, const std::vector<std::string>& sets,
                                     Schedule& schedule) {
  auto machine = plan::machine_of_sets(sets);
  if (!machine) return machine;
  auto recorded = load_recorded(sources.paths, sources.step);
  if (!recorded) return tl::unexpected(recorded.error());
  const auto problems = validate(recorded->rebuilt.graph, 1);
  if (!problems.empty())
    return fail_at(sources.paths.front(), "cannot be rebuilt as a schedule: {}",
                   problems.front().message);
  schedule.graph = std::move(recorded->rebuilt.graph);
  schedule.recorded = std::move(recorded->rebuilt.ranks);
  schedule.group_sizes = std::move(recorded->rebuilt.group_sizes);
  schedule.is_one_recording = recorded->rebuilt.is_one_recording;
  schedule.replays_measured = !recorded->is_predicted;
  schedule.warnings = std::move(recorded->rebuilt.warnings);
  schedule.model = recorded->is_predicted ? "predicted run" : "recorded run";
  schedule.engine.once = true;
  schedule.has_host = false;
  if (const Status loaded = set_hardware(*machine, schedule); !loaded)
    return tl::unexpected(loaded.error());
  const bool is_named = std::ranges::any_of(sets, [](const std::string& set) {
    return set.starts_with("cluster.hardware=") || set.starts_with("cluster.hw=");
  });
  std::vector<std::string> pricing, idle;
  for (const std::string& set : std::span(sets).subspan(sources.defaults.size()))
    if (!set.starts_with("cluster.link_bandwidth_scale="))  // of recorded collectives, too
      (set.starts_with("allocator.") ? idle : pricing).push_back(set);
  if (!pricing.empty())
    schedule.warnings.push_back(
        fmt::format("recorded times stay what they are: {} only price{} what a pass adds",
                    keys_of(pricing), pricing.size() == 1 ? "s" : ""));
  if (!idle.empty())
    schedule.warnings.push_back(
        fmt::format("a recording's memory is not replayed: {} change{} nothing", keys_of(idle),
                    idle.size() == 1 ? "s" : ""));
  if (!recorded->device.empty())
    schedule.hardware.name = recorded->device;
  else if (!is_named)
    schedule.hardware.name = "unknown GPU";
  return machine;
}

Result<plan::Workload> read_text(std::string text, const Sources& sources,
                                 const std::vector<std::string>& sets, Schedule& schedule) {
  const std::string& source = sources.paths.front();
  const auto kind = sniff(text, source);
  if (!kind) return tl::unexpected(kind.error());
  const bool is_thunder_pair = *kind == SourceKind::thunder && sources.is_pair;
  if (sources.paths.size() > 1 && !is_thunder_pair)
    return fail_at(
        source, "{}",
        sources.is_pair
            ? "is no Thunder trace: only those have a backward of their own"
            : "is one source alone: several are the ranks of a recorded run or of Chakra "
              "traces, or the Thunder traces of a forward and its backward");
  if (sources.step)
    return fail_at("--step", "chooses a step of a recorded run, and {} is none", source);
  switch (*kind) {
    case SourceKind::workload:
      return read_workload(std::move(text), source, sets, nullptr, schedule);
    case SourceKind::thunder:
      return read_thunder(std::move(text), source, is_thunder_pair ? sources.paths.back() : "",
                          sets, schedule);
    case SourceKind::schedule: break;
  }
  return read_schedule(text, source, sets, schedule);
}

Result<plan::Workload> read_sources(const Sources& sources, const std::vector<std::string>& sets,
                                    Schedule& schedule) {
  if (sources.workload)
    return read_workload(sources.workload->text, sources.paths.front(), sets, &*sources.workload,
                         schedule);
  if (is_chakra(sources.paths.front())) {
    if (sources.is_pair)
      return fail_at(sources.paths.front(),
                     "is no Thunder trace: only those have a backward of their own");
    return read_chakra(sources, sets, schedule);
  }
  const auto recorded = is_recorded(sources.paths.front());
  if (!recorded) return tl::unexpected(recorded.error());
  if (*recorded) return read_recorded(sources, sets, schedule);
  auto text = read_file(sources.paths.front(), kLongestSource);
  if (!text) return tl::unexpected(text.error());
  return read_text(std::move(*text), sources, sets, schedule);
}

// Passes, prices and options.
Status finish_schedule(const std::vector<sim::Pass>& what_if, const plan::Workload& machine,
                       Schedule& schedule) {
  auto rewritten = rewrite(std::move(schedule.graph), what_if, machine, schedule.hardware);
  if (!rewritten) return tl::unexpected(rewritten.error());
  schedule.graph = std::move(rewritten->graph);
  schedule.what_if = std::move(rewritten->notes);
  for (std::string& warning : warnings_of(schedule.what_if))
    schedule.warnings.push_back(std::move(warning));
  schedule.changes = rewritten->prices;
  schedule.link_scale = machine.cluster.link_bandwidth_scale * rewritten->prices.links;
  const sim::CostTable table =
      priced(schedule.graph, machine, rewritten->prices, schedule.hardware, schedule.has_host);
  if (const Status bounded = check_step_length(schedule.graph, table); !bounded) return bounded;
  std::size_t rows = 1;
  for (const RankClass& rank_class : schedule.graph.classes)
    rows = std::max(rows, std::size_t{rank_class.hardware} + 1);
  if (rows > 1) schedule.warnings.emplace_back("all rank classes are priced on one hardware");
  schedule.prices.assign(rows, table);
  const auto limits = device_limits(schedule.graph, machine, schedule.hardware);
  if (!limits) return tl::unexpected(limits.error());
  schedule.engine.alloc = limits->engine.alloc;
  schedule.engine.capacity = limits->engine.capacity;
  schedule.engine.contention = limits->engine.contention && schedule.recorded.empty();
  schedule.capacity = limits->capacity;
  schedule.outside_allocator = limits->outside_allocator;
  return {};
}

}  // namespace

Result<Schedule> load_schedule(const Sources& sources, const std::vector<std::string>& sets,
                               const std::vector<sim::Pass>& what_if) {
  const std::string& source = sources.paths.front();
  Schedule schedule;
  for (const std::string& path : sources.paths)
    schedule.inputs.push_back(store::is_run(path) ? store::parse_location(path).path : path);
  schedule.name = std::filesystem::path(schedule.inputs.front()).stem().string();
  std::vector<std::string> all_sets = sources.defaults;
  all_sets.insert(all_sets.end(), sets.begin(), sets.end());
  const auto machine = read_sources(sources, all_sets, schedule);
  if (!machine) return tl::unexpected(machine.error());
  // A name of the catalogue is no file.
  for (const std::string& input :
       {machine->cluster.hardware, machine->cluster.topology, machine->cluster.fabric})
    schedule.inputs.push_back(input);
  const bool scales_links = machine->cluster.link_bandwidth_scale != 1;
  if (!schedule.recorded.empty() && (!what_if.empty() || scales_links)) {
    plan::Workload as_it_was = *machine;
    as_it_was.cluster.link_bandwidth_scale = 1;
    schedule.as_recorded = {
        schedule.graph,
        {priced(schedule.graph, as_it_was, {}, schedule.hardware, schedule.has_host)}};
  }
  const Status ready = finish_schedule(what_if, *machine, schedule);
  if (!ready) {
    Error error = ready.error();
    if (error.place.empty()) error.place = source;
    return tl::unexpected(std::move(error));
  }
  return schedule;
}

Result<Schedule> load_schedule(const std::string& source, const std::vector<std::string>& sets,
                               const std::vector<sim::Pass>& what_if) {
  return load_schedule(Sources{{source}, false, {}}, sets, what_if);
}

}  // namespace foregather::tasks
