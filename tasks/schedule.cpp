#include "tasks/schedule.h"

#include <algorithm>
#include <filesystem>

#include "core/alloc/config.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/ir/dump.h"
#include "core/ir/validate.h"
#include "core/plan/lower.h"
#include "core/plan/model.h"
#include "core/plan/model_left_out.h"
#include "core/plan/workload_keys.h"
#include "core/plan/workload_toml.h"
#include "core/store/location.h"
#include "core/store/reader.h"
#include "sim/cost/outside.h"
#include "sim/cost/price.h"
#include "sim/passes/registry.h"
#include "tasks/chakra_source.h"
#include "tasks/machine.h"
#include "tasks/recorded_source.h"
#include "tasks/sniff.h"
#include "tasks/thunder_source.h"

namespace foregather::tasks {
namespace {

constexpr Bytes kLongestSource = 4 * GiB;

// An error whose place is a key, at the place of that key.
tl::unexpected<Error> at_key(const plan::Workload& workload, Error error) {
  if (const plan::WorkloadKey* key = plan::find_workload_key(error.place); key != nullptr)
    error.place = workload.place_of({key->name});
  return tl::unexpected(std::move(error));
}

// Each op of each micro-batch has a row: what a prediction costs is linear in them.
Status check_step_size(const plan::Model& model, const plan::Workload& workload) {
  constexpr double kMostOps = 1e7;
  double ops = 0;
  for (const plan::Module& module : model.modules) {
    const plan::Tape& tape = model.tapes[module.tape];
    ops += static_cast<double>(tape.forward.size() + tape.backward.size());
  }
  ops *= static_cast<double>(workload.train.grad_accum);
  if (ops <= kMostOps) return {};
  return fail_at(workload.place_of({"train.grad_accum", "model.layers"}),
                 "a step of about {:.0f} million ops, expected at most {:.0f} million: lower "
                 "model.layers or train.grad_accum",
                 ops / 1e6, kMostOps / 1e6);
}

// A sum of times must stay far from the end of 64 bits.
Status check_step_length(const Graph& graph, const sim::CostTable& table) {
  constexpr double kLongestStep = 1e17;  // three years
  double sum = 0;
  for (const Op& op : graph.ops) sum += static_cast<double>(table.prices[op.cost.row()].duration);
  if (sum <= kLongestStep) return {};
  return fail(
      "the ops of a step take {:.0f} years: check the hardware's figures and the workload's "
      "sizes",
      sum / 3.15e16);
}

plan::Implementation implementation_of(const plan::Train& train, const sim::Hardware& hardware) {
  plan::Implementation implementation;
  implementation.flash_attention = has_flash_attention(hardware);
  implementation.fused_rms_norm = train.fused_rms_norm;
  implementation.repeat_kv = train.repeat_kv;
  return implementation;
}

Status set_hardware(const plan::Workload& machine, Schedule& schedule) {
  auto hardware = load_machine(machine.cluster);
  if (!hardware) return at_key(machine, hardware.error());
  schedule.hardware = std::move(*hardware);
  return {};
}

// Fills graph, hardware, model and strategy; returns the machine to price it on.
Result<plan::Workload> lower_workload(std::string text, const std::string& source,
                                      const std::vector<std::string>& sets, Schedule& schedule) {
  if (std::ssize(text) > plan::kWorkloadFileLimit)
    return fail_at(source, "is {} long, expected a workload of at most {}",
                   format_bytes(std::ssize(text)), format_bytes(plan::kWorkloadFileLimit));
  auto workload = plan::parse_workload(text, source, sets);
  if (!workload) return workload;
  auto config = plan::read_model(*workload);
  if (!config) return tl::unexpected(config.error());
  if (const Status resolved = plan::resolve_workload(*workload, *config); !resolved)
    return tl::unexpected(resolved.error());
  if (const Status sized = plan::check_model_size(*config, workload->train); !sized)
    return at_key(*workload, sized.error());
  if (const Status loaded = set_hardware(*workload, schedule); !loaded)
    return tl::unexpected(loaded.error());
  if (const Status able = check_machine(*workload, schedule.hardware); !able)
    return tl::unexpected(able.error());
  schedule.warnings = workload->warnings;
  for (const auto& warnings : {plan::model_warnings(*config, workload->train),
                               machine_warnings(*workload, schedule.hardware)})
    schedule.warnings.insert(schedule.warnings.end(), warnings.begin(), warnings.end());
  const plan::Model model = plan::build_model(
      *config, workload->train, implementation_of(workload->train, schedule.hardware));
  if (const Status bounded = check_step_size(model, *workload); !bounded)
    return tl::unexpected(bounded.error());
  auto graph = plan::lower(model, *workload);
  if (!graph) return tl::unexpected(graph.error());
  schedule.source_text = std::move(text);
  schedule.inputs.push_back(workload->model_config);
  schedule.graph = std::move(*graph);
  schedule.model = fmt::format("{}, {} layers", config->model_type, config->layers);
  schedule.strategy = plan::name(workload->parallel.strategy);
  schedule.batch = fmt::format("micro-batch {} × {} tokens", workload->train.micro_batch,
                               workload->train.seq_len);
  return workload;
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

// DeepCompile's own passes. They come before the first what-if that reorders collectives, so that
// the others see the graphs as zero3_compile leaves them; an order given takes their place.
Result<std::vector<sim::Pass>> with_own_passes(const std::vector<sim::Pass>& what_if,
                                               const plan::Workload& workload) {
  const plan::DeepCompilePasses own = workload.parallel.deepcompile_passes;
  if (workload.parallel.strategy != plan::Strategy::deepcompile ||
      own == plan::DeepCompilePasses::none)
    return what_if;
  const auto first = std::find_if(what_if.begin(), what_if.end(), [](const sim::Pass& pass) {
    return pass.name == "order" || pass.name == "prefetch" || pass.name == "selective-gather";
  });
  if (first != what_if.end() && first->name == "order") return what_if;
  std::vector<std::string> texts{"order=fast-free"};
  if (own == plan::DeepCompilePasses::full && first == what_if.end())
    texts.insert(texts.end(), {"prefetch=budget", "selective-gather"});
  auto passes = sim::parse_passes(texts);
  if (!passes) return passes;
  passes->insert(passes->begin(), what_if.begin(), first);
  passes->insert(passes->end(), first, what_if.end());
  return passes;
}

sim::PriceOptions price_options(const Graph& graph, const plan::Workload& machine,
                                const sim::PriceChanges& changes) {
  sim::PriceOptions options;
  options.ranks = graph.world_size;
  options.link_bandwidth_scale = machine.cluster.link_bandwidth_scale * changes.links;
  options.compute_scale = changes.compute;
  options.attention_speed = machine.train.attention_speed;
  options.gpus_per_node = std::max(machine.cluster.gpus_per_node, 1U);
  return options;
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
      "the memory of Chakra traces is not modelled: peaks are 0, and say nothing of what fits");
  return machine;
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
  schedule.is_one_recording = recorded->rebuilt.is_one_recording;
  schedule.warnings = std::move(recorded->rebuilt.warnings);
  schedule.model = "recorded run";
  schedule.engine.once = true;
  schedule.has_host = false;
  if (const Status loaded = set_hardware(*machine, schedule); !loaded)
    return tl::unexpected(loaded.error());
  if (!recorded->device.empty()) schedule.hardware.name = recorded->device;
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
    case SourceKind::workload: return lower_workload(std::move(text), source, sets, schedule);
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
    return lower_workload(*sources.workload, sources.paths.front(), sets, schedule);
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

Status apply_what_if(const std::vector<sim::Pass>& what_if, const plan::Workload& machine,
                     Schedule& schedule, sim::PriceChanges& prices) {
  const auto passes = with_own_passes(what_if, machine);
  if (!passes) return tl::unexpected(passes.error());
  sim::PassTarget target{std::move(schedule.graph)};
  target.context.device_memory = static_cast<Bytes>(schedule.hardware.memory.capacity);
  target.context.price = [&](const Graph& graph, const sim::PriceChanges& changes) {
    sim::CostTable table =
        sim::price(graph, schedule.hardware, price_options(graph, machine, changes));
    sim::change_prices(changes, graph, table);
    return table;
  };
  auto notes = sim::apply_passes(*passes, target);
  if (!notes) return tl::unexpected(notes.error());
  for (const sim::PassNote& note : *notes)
    if (!note.changed)
      schedule.warnings.push_back(fmt::format("--what-if {}: {}", note.pass, note.did));
  schedule.what_if = std::move(*notes);
  schedule.graph = std::move(target.graph);
  prices = std::move(target.prices);
  return {};
}

sim::CostTable priced(const Graph& graph, const plan::Workload& machine,
                      const sim::PriceChanges& changes, const Schedule& schedule) {
  sim::CostTable table =
      sim::price(graph, schedule.hardware, price_options(graph, machine, changes));
  sim::change_prices(changes, graph, table);
  if (!schedule.has_host) {
    table.host = {};
    table.host.launch_queue = 0;
    for (sim::Price& price : table.prices) price.host = 0;
  }
  return table;
}

Status price_schedule(const plan::Workload& machine, const sim::PriceChanges& changes,
                      Schedule& schedule) {
  const sim::CostTable table = priced(schedule.graph, machine, changes, schedule);
  if (const Status bounded = check_step_length(schedule.graph, table); !bounded) return bounded;
  std::size_t rows = 1;
  for (const RankClass& rank_class : schedule.graph.classes)
    rows = std::max(rows, std::size_t{rank_class.hardware} + 1);
  if (rows > 1) schedule.warnings.push_back("all rank classes are priced on one hardware");
  schedule.prices.assign(rows, table);
  return {};
}

Status set_engine(const plan::Workload& machine, Schedule& schedule) {
  const auto config = alloc::parse_alloc_conf(machine.allocator_conf);
  if (!config)
    return fail_at(machine.place_of({"allocator.conf"}), "allocator.conf: {}",
                   config.error().message);
  schedule.engine.alloc = *config;
  schedule.engine.contention = machine.cluster.contention && schedule.recorded.empty();
  schedule.capacity = static_cast<Bytes>(schedule.hardware.memory.capacity);
  schedule.outside_allocator = sim::outside_allocator_bytes(schedule.graph, schedule.hardware);
  schedule.engine.capacity = schedule.capacity - schedule.outside_allocator;
  if (schedule.engine.capacity <= 0)
    return fail_at(machine.place_of({"cluster.hardware"}),
                   "{} holds {}, but context and libraries take {} outside the allocator",
                   schedule.hardware.name, format_bytes(schedule.capacity),
                   format_bytes(schedule.outside_allocator));
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
  const auto machine = read_sources(sources, sets, schedule);
  if (!machine) return tl::unexpected(machine.error());
  // A name of the catalogue is no file.
  for (const std::string& input :
       {machine->cluster.hardware, machine->cluster.topology, machine->cluster.fabric})
    schedule.inputs.push_back(input);
  sim::PriceChanges changes;
  if (!schedule.recorded.empty() && !what_if.empty())
    schedule.as_recorded = {schedule.graph, {priced(schedule.graph, *machine, {}, schedule)}};
  Status ready = apply_what_if(what_if, *machine, schedule, changes);
  if (ready) ready = price_schedule(*machine, changes, schedule);
  if (ready) ready = set_engine(*machine, schedule);
  if (!ready) {
    if (ready.error().place.empty()) ready.error().place = source;
    return tl::unexpected(std::move(ready.error()));
  }
  return schedule;
}

Result<Schedule> load_schedule(const std::string& source, const std::vector<std::string>& sets,
                               const std::vector<sim::Pass>& what_if) {
  return load_schedule(Sources{{source}, false, {}}, sets, what_if);
}

}  // namespace foregather::tasks
