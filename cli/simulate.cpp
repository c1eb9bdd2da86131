#include "tasks/simulate.h"

#include <fmt/format.h>

#include <array>
#include <memory>

#include "cli/command.h"
#include "cli/hardware.h"
#include "cli/step.h"
#include "cli/summary_text.h"
#include "cli/terminal.h"
#include "core/base/printable.h"
#include "core/base/suggest.h"
#include "core/base/text.h"
#include "tasks/keys.h"
#include "tasks/outputs.h"
#include "tasks/thunder_source.h"

namespace foregather::cli {
namespace {

struct SimulateArguments {
  std::vector<std::string> sources, sets, what_if;
  std::string hardware, memory_model, as, step, database, trace, dump;
  bool json = false, keys = false;
};

constexpr std::array<std::string_view, 3> kMemoryModels{"allocator", "live", "thunder-estimator"};

Result<tasks::MemoryModel> memory_model(const std::string& name) {
  if (name.empty() || name == "allocator") return tasks::MemoryModel::allocator;
  if (name == "live") return tasks::MemoryModel::live;
  if (name == "thunder-estimator") return tasks::MemoryModel::thunder_estimator;
  return fail_at("--memory-model", "unknown model '{}'{}; known are {}", name,
                 did_you_mean(name, kMemoryModels), fmt::join(kMemoryModels, ", "));
}

Result<tasks::SimulateRequest> request_of(const SimulateArguments& arguments) {
  if (arguments.sources.empty())
    return fail(
        "SOURCE is missing: name a workload (.toml), a schedule dump, a Thunder or Chakra trace "
        "(try 'foregather simulate --help')");
  const bool is_pair = arguments.sources.size() == 2;
  const bool says_pair = arguments.as == "fwd-bwd";
  if (!arguments.as.empty() && !says_pair && arguments.as != "ranks")
    return fail_at("--as", "unknown '{}', expected ranks or fwd-bwd", arguments.as);
  if (!arguments.as.empty() && arguments.sources.size() == 1)
    return fail_at("--as", "says how several sources belong together, and there is one");
  if (says_pair && !is_pair)
    return fail_at("--as", "fwd-bwd takes a forward and a backward, not {} sources",
                   arguments.sources.size());
  const bool takes_pair =
      is_pair &&
      (says_pair || (arguments.as.empty() &&
                     tasks::are_forward_and_backward(arguments.sources[0], arguments.sources[1])));
  const auto step = parse_step(arguments.step);
  if (!step) return tl::unexpected(step.error());
  const auto model = memory_model(arguments.memory_model);
  if (!model) return tl::unexpected(model.error());
  tasks::SimulateRequest request;
  request.sources = {arguments.sources, takes_pair, *step};
  auto sets = with_hardware(arguments.sets, arguments.hardware);
  if (!sets) return tl::unexpected(sets.error());
  request.sets = std::move(*sets);
  request.what_if = arguments.what_if;
  request.memory_model = *model;
  return request;
}

std::string keys_text() {
  std::string text = "Keys of a workload, as --set takes them:\n";
  for (const tasks::KeyHelp& key : tasks::workload_keys()) {
    text += fmt::format("\n  {} = {}\n      {}", key.name, key.values, key.doc);
    text += key.default_value.empty() ? "\n" : fmt::format(". Default: {}\n", key.default_value);
  }
  text += fmt::format("\nHardware: {}\n", fmt::join(tasks::hardware_names(), ", "));
  text += fmt::format("Topologies: {}\n", fmt::join(tasks::topology_names(), ", "));
  text += fmt::format("Fabrics: {}\n", fmt::join(tasks::fabric_names(), ", "));
  return text;
}

// --hw is a --set by another name: places call it what the user did.
void as_asked(std::string& place, const SimulateArguments& arguments) {
  constexpr std::string_view kSet = "--set cluster.hardware=";
  if (!arguments.hardware.empty() && place.starts_with(kSet))
    place.replace(0, kSet.size(), "--hw ");
}

std::string wrote(const SimulateArguments& arguments) {
  std::string text;
  for (const std::string& path : {arguments.database, arguments.trace, arguments.dump})
    if (!path.empty()) text += fmt::format("wrote {}\n", printable(path));
  return text;
}

int run_simulate(const SimulateArguments& arguments) {
  if (arguments.keys) return print(keys_text());
  auto request = request_of(arguments);
  if (!request) return give_up(request.error());
  auto outputs = tasks::Outputs::open(arguments.database, arguments.trace, arguments.dump);
  if (!outputs) return give_up(outputs.error());
  request->record_memory = outputs->wants_run();
  request->dump = !arguments.dump.empty();
  auto outcome = tasks::simulate(*request);
  if (!outcome) {
    as_asked(outcome.error().place, arguments);
    return give_up(outcome.error());
  }
  for (std::string& warning : outcome->summary.warnings) as_asked(warning, arguments);
  if (const Status written = outputs->write({&outcome->run, 1}, outcome->dump, outcome->inputs);
      !written)
    return give_up(written.error());
  for (const std::string& warning : outcome->summary.warnings) complain("warning: " + warning);
  if (arguments.json) return print_json(tasks::to_json(outcome->summary));
  std::string text = summary_text(outcome->summary);
  if (const std::string files = wrote(arguments); !files.empty()) text += "\n" + files;
  return print(text);
}

std::vector<Option> options(SimulateArguments& arguments) {
  return {
      {"SOURCE", "",
       "a workload (.toml), a schedule dump, a printed Thunder trace, Chakra traces or a recorded "
       "run "
       "(as import reads them) or a run of a database (RUN.db, RUN.db:NAME); the content decides. "
       "Several Chakra traces or recorded runs are "
       "the "
       "ranks of one job; a forward's and a backward's Thunder trace together are one step",
       nullptr, nullptr, &arguments.sources},
      {"--hw", "HW",
       fmt::format("a built-in machine, or the path of a hardware file. Built in are {}. The same "
                   "as --set cluster.hardware=HW",
                   fmt::join(tasks::hardware_names(), ", ")),
       nullptr, &arguments.hardware, nullptr},
      {"--set", "KEY=VALUE",
       "sets a key of the workload by its dotted path; may be repeated, the "
       "last one wins. --keys lists the keys",
       nullptr, nullptr, &arguments.sets},
      {"--keys", "", "lists the keys of a workload with their values and defaults", &arguments.keys,
       nullptr, nullptr},
      {"--what-if", "PASS",
       "changes the schedule or its prices before it is simulated; may be repeated and applies in "
       "order. docs/passes.md explains each pass:" +
           tasks::what_if_help(),
       nullptr, nullptr, &arguments.what_if},
      {"--memory-model",
       "MODEL",
       "allocator (default): PyTorch's caching allocator, decision by "
       "decision; live: bytes of live tensors in program order, without rounding or streams; "
       "thunder-estimator: Thunder's own rules, for Thunder traces",
       nullptr,
       &arguments.memory_model,
       nullptr,
       false,
       false,
       {kMemoryModels.begin(), kMemoryModels.end()}},
      {"--as", "ranks|fwd-bwd", "what several sources are: ranks, or a forward and a backward",
       nullptr, &arguments.as, nullptr},
      {"--step", "N", "which step of a recorded run", nullptr, &arguments.step, nullptr},
      {"-o,--output", "RUN.db", "writes the predicted run: every op, allocation and memory curve",
       nullptr, &arguments.database, nullptr},
      {"--trace", "OUT.json", "writes the timeline as Chrome trace, for https://ui.perfetto.dev",
       nullptr, &arguments.trace, nullptr},
      {"--dump", "OUT.fg",
       "writes the schedule itself as text, which simulate reads back: ops, storages and the "
       "actions of each host thread",
       nullptr, &arguments.dump, nullptr},
      {"--json", "", "prints one JSON object, times in ns and sizes in bytes, and nothing else",
       &arguments.json, nullptr, nullptr},
  };
}

}  // namespace

Command simulate_command() {
  const auto arguments = std::make_shared<SimulateArguments>();
  Command command;
  command.name = "simulate";
  command.summary = "predicts one training step";
  command.description =
      "Predicts what one training step costs: its time, what of the communication stays exposed, "
      "the "
      "memory peak and what holds it, and whether it fits.\n\nFigures describe the steady step; "
      "the "
      "first step, which makes the optimizer states, is reported apart.";
  command.options = options(*arguments);
  command.examples = {
      "foregather simulate traces/samples/llama3_8b_fsdp2.toml\tLlama-3.1-8B on 8 H100",
      "foregather simulate w.toml --set train.micro_batch=2 --set "
      "train.activation_checkpointing=full\tanother configuration of the same workload",
      "foregather simulate w.toml --hw a100_80_sxm -o run.db --trace step.json\ton other hardware, "
      "with all rows and a timeline",
      "foregather simulate forward.txt backward.txt --memory-model live\ta step of two Thunder "
      "traces",
      "foregather simulate job/fsdp.*.et.gz\tthe Chakra traces of all ranks of a job",
      "foregather simulate w.toml --what-if scale=links:2 --json\twith links twice as fast, for a "
      "program",
  };
  command.run = [arguments] { return run_simulate(*arguments); };
  return command;
}

}  // namespace foregather::cli
