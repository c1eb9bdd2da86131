#include "tasks/validation/reproduce.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "cli/terminal.h"
#include "core/base/file.h"
#include "core/base/program_files.h"

namespace foregather::cli {
namespace {

struct ReproduceArguments {
  std::string folder, report;
  bool json = false, check = false;
};

Result<std::string> samples_of(const ReproduceArguments& arguments) {
  if (!arguments.folder.empty()) return arguments.folder;
  std::string source = "traces/samples";
  std::error_code ignored;
  if (std::filesystem::is_directory(source, ignored)) return source;
  std::string installed = installed_samples();
  if (!installed.empty()) return installed;
  return fail_at(source,
                 "is not in this folder, and no samples are installed: expected --samples DIR, the "
                 "traces/samples of the repository");
}

int run_reproduce(const ReproduceArguments& arguments) {
  const auto samples = samples_of(arguments);
  if (!samples) return give_up(samples.error());
  const auto rows = tasks::reproduce(*samples);
  if (!rows) return give_up(rows.error());
  if (!arguments.report.empty()) {
    auto file = PendingFile::create(arguments.report);
    if (!file) return give_up(file.error());
    Status written = file->write(tasks::reproduced_markdown(*rows));
    if (written) written = file->commit();
    if (!written) return give_up(written.error());
  }
  const int printed =
      arguments.json ? print_json(tasks::to_json(*rows)) : print(tasks::reproduced_text(*rows));
  if (printed != 0 || !arguments.check) return printed;
  return std::all_of(rows->begin(), rows->end(), [](const auto& row) { return row.holds(); }) ? 0
                                                                                              : 1;
}

}  // namespace

Command reproduce_command() {
  const auto arguments = std::make_shared<ReproduceArguments>();
  Command command;
  command.name = "reproduce";
  command.summary = "reproduces published effects of schedules";
  command.description =
      "Simulates the schedules behind four published changes (shared parameters gathered once, "
      "fusion and order against memory, backward prefetch, the downcast fused into the all-gather) "
      "and prints published and predicted side by side, with the command that each figure comes "
      "from and what had to be assumed.";
  command.options = {
      {"--samples", "DIR", "the samples (default: traces/samples, or else the installed ones)",
       nullptr, &arguments->folder, nullptr},
      {"--report", "OUT.md", "writes the table for people", nullptr, &arguments->report, nullptr},
      {"--json", "", "prints one JSON object and nothing else", &arguments->json, nullptr, nullptr},
      {"--check", "", "exits with 1 when a figure lies outside its range", &arguments->check,
       nullptr, nullptr},
  };
  command.examples = {"foregather reproduce\tall published effects"};
  command.run = [arguments] { return run_reproduce(*arguments); };
  return command;
}

}  // namespace foregather::cli
