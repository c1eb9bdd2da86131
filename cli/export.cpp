#include "tasks/export.h"

#include <fmt/format.h>

#include <memory>

#include "cli/command.h"
#include "cli/terminal.h"
#include "core/base/printable.h"

namespace foregather::cli {
namespace {

struct Arguments {
  std::string database, format, output;
};

int run(const Arguments& arguments) {
  const Status done = tasks::export_run(arguments.database, arguments.format, arguments.output);
  if (!done) return give_up(done.error());
  return print(fmt::format("wrote {}\n", printable(arguments.output)));
}

std::string format_doc() {
  std::string doc = "what to write: ";
  bool first = true;
  for (const tasks::ExportFormat& format : tasks::export_formats()) {
    doc += fmt::format("{}{} ({})", first ? "" : "; ", format.name, format.doc);
    first = false;
  }
  return doc;
}

}  // namespace

Command export_command() {
  const auto arguments = std::make_shared<Arguments>();
  Command command;
  command.name = "export";
  command.summary = "writes a run in the format of another tool";
  command.description =
      "Reads one run of a database and writes it in the format of another tool. Times are exact.";
  command.options = {
      {"RUN.db", "", "the database; RUN.db:NAME chooses one of several runs", nullptr,
       &arguments->database, nullptr, true},
      {"-f,--format", "FORMAT", format_doc(), nullptr, &arguments->format, nullptr, true},
      {"-o,--output", "FILE", "the file to write", nullptr, &arguments->output, nullptr, true},
  };
  command.examples = {
      "foregather export run.db --format chrome -o trace.json\tthe timeline, for "
      "https://ui.perfetto.dev",
      "foregather export run.db --format csv -o ops.csv\tone op a row, for a spreadsheet",
  };
  command.run = [arguments] { return run(*arguments); };
  return command;
}

}  // namespace foregather::cli
