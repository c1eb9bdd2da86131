#include <algorithm>
#include <charconv>
#include <memory>

#include "cli/command.h"
#include "cli/hardware.h"
#include "cli/progress.h"
#include "cli/terminal.h"
#include "core/base/printable.h"
#include "core/base/text.h"
#include "tasks/execute.h"
#include "tasks/keys.h"

namespace foregather::cli {
namespace {

struct RunArguments {
  std::vector<std::string> sources, sets, what_if;
  std::string backend, hardware, ranks, steps, database;
  bool json = false;
};

Result<std::uint32_t> parse_count(const char* option, const std::string& text) {
  std::uint32_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end)
    return fail_at(option, "'{}' is no count, expected a whole number", text);
  return number;
}

Result<tasks::ExecuteRequest> request_of(const RunArguments& arguments) {
  if (arguments.sources.size() != 1)
    return fail("{} sources, expected one schedule to run (try 'foregather run --help')",
                arguments.sources.size());
  tasks::ExecuteRequest request;
  request.source = arguments.sources.front();
  request.backend = arguments.backend;
  request.output = arguments.database;
  auto sets = with_hardware(arguments.sets, arguments.hardware);
  if (!sets) return tl::unexpected(sets.error());
  request.sets = std::move(*sets);
  request.what_if = arguments.what_if;
  if (!arguments.ranks.empty()) {
    const auto ranks = parse_count("-n", arguments.ranks);
    if (!ranks) return tl::unexpected(ranks.error());
    request.ranks = *ranks;
  }
  if (!arguments.steps.empty()) {
    const auto steps = parse_count("--steps", arguments.steps);
    if (!steps) return tl::unexpected(steps.error());
    if (*steps == 0) return fail_at("--steps", "0 steps, expected at least one");
    request.steps = *steps;
  }
  return request;
}

std::string run_text(const tasks::ExecuteReport& report) {
  std::string text = fmt::format("{} on {} ranks, {} backend ({})\n\n", printable(report.name),
                                 report.world_size, report.backend, report.description);
  if (report.run.step_time)
    text += fmt::format("step time            {:.2f} ms, the median of {}\n",
                        static_cast<double>(*report.run.step_time) / 1e6, report.run.steps - 1);
  if (!report.has_memory)
    text += "peak                 not known: a recording says nothing of it\n";
  for (const runtime::RankFigures& rank : report.run.ranks) {
    if (!report.has_memory) break;
    text += fmt::format("rank {:<4} peak        {} allocated, {} reserved\n", rank.rank,
                        format_bytes(rank.steady.peak_allocated),
                        format_bytes(rank.steady.peak_reserved));
  }
  if (report.run.oom)
    text += fmt::format("out of memory        {} for {}{}\n", format_bytes(report.run.oom->bytes),
                        printable(report.oom_storage),
                        report.oom_op ? ", before " + printable(*report.oom_op) : "");
  const runtime::BackendReport& backend = report.run.backend;
  text += fmt::format("numbers              {} collectives and {} casts as expected, {}\n",
                      backend.checked_collectives, backend.checked_casts,
                      format_bytes(backend.checked_bytes));
  return text + fmt::format("\nwrote {}\n", printable(report.output));
}

int run_run(const RunArguments& arguments) {
  const auto request = request_of(arguments);
  if (!request) return give_up(request.error());
  auto line = std::make_unique<ProgressLine>();
  const auto report = tasks::execute(*request, [&](const tasks::ExecuteProgress& progress) {
    const double share = static_cast<double>(progress.ops) /
                         static_cast<double>(std::max<std::int64_t>(progress.all, 1));
    line->show(std::min(share, 1.0), [&] {
      return fmt::format("{} of {} ops", format_count(progress.ops), format_count(progress.all));
    });
  });
  line.reset();
  if (!report) return give_up(report.error());
  for (const std::string& warning : report->warnings) complain("warning: " + warning);
  return arguments.json ? print_json(tasks::to_json(*report)) : print(run_text(*report));
}

}  // namespace

Command run_command() {
  const auto arguments = std::make_shared<RunArguments>();
  Command command;
  command.name = "run";
  command.summary = "executes a schedule for real and records it";
  command.description =
      "Executes the schedule that simulate would predict, and records every op, host call and "
      "allocation into a database that simulate, compare, calibrate and export read. The file is "
      "written while the job runs: killed at any moment, it holds all but the last second.\n\n"
      "The host backend needs no GPU. Ranks, host threads and streams are threads, buffers are "
      "memory that the caching allocator hands out, collectives move their bytes between the "
      "ranks, and every one, like every cast, is compared with what it should give. Devices are "
      "rated, so that many fit a few cores: docs/runtime.md.\n\n"
      "The CUDA backend gives each rank a GPU, with NCCL between them, or lets all ranks share "
      "one. Under "
      "torchrun, mpirun or srun each process runs its rank, and writes RUN.rankN.db. It has "
      "run on one H200; with several GPUs, and in several processes, not yet.";
  command.options = {
      {"SOURCE", "", "what simulate takes: a workload, a schedule dump, a trace", nullptr, nullptr,
       &arguments->sources},
      {"--backend",
       "NAME",
       "host, or cuda (a plug-in beside the program)",
       nullptr,
       &arguments->backend,
       nullptr,
       true,
       false,
       {"host", "cuda"}},
      {"--hw", "HW",
       "the hardware that the schedule is lowered for. Default: with the host backend host, what "
       "it "
       "is rated for; else the workload's",
       nullptr, &arguments->hardware, nullptr},
      {"--set", "KEY=VALUE", "sets a key of the workload, as simulate does; may be repeated",
       nullptr, nullptr, &arguments->sets},
      {"--what-if", "PASS",
       "changes the schedule before it runs, as simulate does; may be repeated", nullptr, nullptr,
       &arguments->what_if},
      {"-n", "RANKS", "ranks of the job: parallel.world_size of a workload", nullptr,
       &arguments->ranks, nullptr},
      {"--steps", "K", "steps to run, the first one included. Default: 11", nullptr,
       &arguments->steps, nullptr},
      {"-o,--output", "RUN.db", "the database to write: a new file", nullptr, &arguments->database,
       nullptr, true},
      {"--json", "", "prints one JSON object, times in ns and sizes in bytes, and nothing else",
       &arguments->json, nullptr, nullptr},
  };
  command.examples = {
      "foregather run traces/samples/tiny_fsdp2.toml --backend host -n 4 -o measured.db\truns the "
      "smallest sample",
      "foregather calibrate measured.db -o mine.toml\tfits the cost model to it",
      "foregather simulate traces/samples/tiny_fsdp2.toml --hw mine.toml -o predicted.db\tpredicts "
      "what ran, where it ran",
      "foregather compare predicted.db measured.db\tprediction and run, op by op",
  };
  command.run = [arguments] { return run_run(*arguments); };
  return command;
}

}  // namespace foregather::cli
