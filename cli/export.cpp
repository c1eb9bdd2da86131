#include "tasks/export.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>

#include "cli/command.h"
#include "cli/terminal.h"
#include "core/base/printable.h"

namespace foregather::cli {
namespace {

struct ExportArguments {
  std::vector<std::string> databases;
  std::string format, output;
};

bool is_standard_output(const std::string& path) {
  struct stat there {};
  struct stat standard {};
  return ::stat(path.c_str(), &there) == 0 && ::fstat(STDOUT_FILENO, &standard) == 0 &&
         there.st_dev == standard.st_dev && there.st_ino == standard.st_ino;
}

int run_export(const ExportArguments& arguments) {
  const Status done = tasks::export_runs(arguments.databases, arguments.format, arguments.output);
  if (!done) return give_up(done.error());
  if (arguments.output == "-" || is_standard_output(arguments.output))
    return 0;  // nothing behind the data
  return print(fmt::format("wrote {}\n", printable(arguments.output)));
}

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const tasks::ExportFormat& format : tasks::export_formats()) names.emplace_back(format.name);
  return names;
}

std::string format_doc() {
  std::string doc = fmt::format("what to write: {}", fmt::join(format_names(), ", "));
  for (const tasks::ExportFormat& format : tasks::export_formats())
    doc += fmt::format("; {}: {}", format.name, format.doc);
  return doc;
}

}  // namespace

Command export_command() {
  const auto arguments = std::make_shared<ExportArguments>();
  Command command;
  command.name = "export";
  command.summary = "writes runs in the format of another tool";
  command.description =
      "Reads a run of a database and writes it in the format of another tool. Times are exact. Two "
      "runs become one archive for Perfetto, in which the steps that compare compares begin at the "
      "same time.";
  command.options = {
      {"RUN.db", "",
       "the database; RUN.db:NAME chooses one of several runs. The format perfetto takes a second "
       "one",
       nullptr, nullptr, &arguments->databases, true},
      {"-f,--format", "FORMAT", format_doc(), nullptr, &arguments->format, nullptr, true, false,
       format_names()},
      {"-o,--output",
       "FILE",
       "the file to write; - is standard output",
       nullptr,
       &arguments->output,
       nullptr,
       true,
       false,
       {},
       true},
  };
  command.examples = {
      "foregather export run.db --format chrome -o trace.json\tthe timeline, for "
      "https://ui.perfetto.dev",
      "foregather export predicted.db measured.db --format perfetto -o both.tar\tboth timelines on "
      "one axis, for https://ui.perfetto.dev",
      "foregather export run.db --format csv -o ops.csv\tone op a row, for a spreadsheet",
  };
  command.run = [arguments] { return run_export(*arguments); };
  return command;
}

}  // namespace foregather::cli
