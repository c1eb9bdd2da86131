#include "tasks/import.h"
#include "tasks/import_run.h"

#include <fmt/format.h>

#include <memory>

#include "cli/command.h"
#include "cli/step.h"
#include "cli/summary_text.h"
#include "cli/terminal.h"
#include "core/base/printable.h"
#include "core/base/text.h"

namespace foregather::cli {
namespace {

struct ImportArguments {
  std::vector<std::string> files;
  std::string database, step;
  bool json = false;
};

std::string text_of(const tasks::ImportedFile& file) {
  TextTable table;
  for (const auto& [what, amount, note] : file.rows) table.row({what, amount, note});
  if (file.read) {
    table.row({"rows read", format_count(file.read->read),
               fmt::format("{} kept", format_count(file.read->kept))});
    for (const auto& [category, count] : file.read->unused)
      table.row({"unused: " + printable(category), format_count(count), ""});
  }
  for (const auto& [reason, count] : file.dropped)
    table.row({"dropped: " + printable(reason), format_count(count), ""});
  return fmt::format("{}: {}\n", printable(file.path), file.what) + table.text(2);
}

std::string text_of(const std::vector<tasks::RankClock>& clocks) {
  if (clocks.empty()) return {};
  TextTable table;
  for (const auto& [rank, clock] : clocks)
    table.row(
        {fmt::format("rank {}", rank), clock ? "ahead by " + clock_text(*clock) : "not known"});
  return "\nClocks, by the ends of shared collectives\n" + table.text(2);
}

int run_import(const ImportArguments& arguments) {
  const auto step = parse_step(arguments.step);
  if (!step) return give_up(step.error());
  if (*step && arguments.database.empty())
    return give_up({"--step", "needs -o OUT.db: it is of what is written", Fault::input});
  const auto files = tasks::import_files(arguments.files);
  if (!files) return give_up(files.error());
  if (arguments.database.empty())  // else what is written is looked at
    if (const Status sane = tasks::check_spans(*files); !sane) return give_up(sane.error());
  for (const tasks::ImportedFile& file : *files)
    for (const std::string& warning : file.warnings) complain("warning: " + warning);
  std::string clocks;
  if (!arguments.database.empty()) {
    const auto imported = tasks::import_run(*files, *step, arguments.database);
    if (!imported) return give_up(imported.error());
    for (const std::string& warning : imported->warnings) complain("warning: " + warning);
    clocks = text_of(imported->clocks);
  }
  if (arguments.json) return print_json(tasks::to_json(*files));
  std::string text;
  for (const tasks::ImportedFile& file : *files) text += (text.empty() ? "" : "\n") + text_of(file);
  if (!arguments.database.empty())
    text += fmt::format("{}\nwrote {}\n", clocks, printable(arguments.database));
  return print(text);
}

}  // namespace

Command import_command() {
  const auto arguments = std::make_shared<ImportArguments>();
  Command command;
  command.name = "import";
  command.summary = "reads what other tools printed or recorded";
  command.description =
      "Reads files of other tools and says what they hold. Several files are read in parallel. "
      "What "
      "is not read is counted and named.\n\n"
      "torch.profiler traces (Chrome JSON, as Kineto printed it since 2021), packed by gzip or "
      "zstd "
      "or not, alone or as members of a tar archive (FILE!MEMBER is one of them): kernels, "
      "streams, "
      "steps, compute and communication, exposed and hidden, memory events.\n\n"
      "Timelines of pipeline-parallel jobs (Chrome JSON whose events have a step): steps, lanes, "
      "names, overlaps.\n\n"
      "SQLite exports of Nsight Systems (nsys export --type sqlite), of any version since 2022: "
      "kernels by device and stream, compute and communication, NVTX ranges.\n\n"
      "Printed traces of lightning-thunder, in any printing style since 2023. The peak is that of "
      "Thunder's own estimator (thunder.examine).\n\n"
      "Chakra execution traces (.et, or JSON with workload_graph): nodes by type, dependencies, "
      "collectives with their bytes, process groups.\n\n"
      "PyTorch execution traces (JSON with schema and nodes): nodes, operators, communication.\n\n"
      "PyTorch memory snapshots (pickles of torch.cuda.memory._dump_snapshot; nothing in them is "
      "executed): segments, blocks, events and peaks of each device. 'foregather memory' replays "
      "them.";
  command.options = {
      {"FILE", "", "a trace; may be repeated. The content decides", nullptr, nullptr,
       &arguments->files, true},
      {"-o,--output", "RUN.db",
       "writes the recorded runs, one file a rank (of Nsight Systems one process), as one "
       "measured run, or memory snapshots, each as one; a Thunder, Chakra or execution trace is "
       "none",
       nullptr, &arguments->database, nullptr},
      {"--step", "N", "with -o: only that step of the recorded runs", nullptr, &arguments->step,
       nullptr},
      {"--json", "",
       "prints one JSON object and nothing else: one file's figures at the top level, of several "
       "under 'files' by path",
       &arguments->json, nullptr, nullptr},
  };
  command.examples = {
      "foregather import rank0.pt.trace.json.gz\twhat is in this trace?",
      "foregather import job.tar.gz --json\tof every trace in an archive, for a program",
      "foregather import forward.txt backward.txt --json\tof two traces, for a program",
  };
  command.run = [arguments] { return run_import(*arguments); };
  return command;
}

}  // namespace foregather::cli
