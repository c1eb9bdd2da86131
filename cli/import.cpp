#include "tasks/import.h"

#include <fmt/format.h>

#include <memory>

#include "cli/command.h"
#include "cli/terminal.h"
#include "core/base/text.h"

namespace foregather::cli {
namespace {

struct Arguments {
  std::vector<std::string> files;
  std::string database;
  bool json = false;
};

std::string text_of(const tasks::ImportedFile& file) {
  TextTable table;
  for (const auto& [what, amount, note] : file.rows) table.row({what, amount, note});
  for (const auto& [reason, count] : file.dropped)
    table.row({"dropped: " + reason, format_count(count), ""});
  return fmt::format("{}: {}\n", file.path, file.what) + table.text(2);
}

int run(const Arguments& arguments) {
  const auto files = tasks::import_files(arguments.files);
  if (!files) return give_up(files.error());
  if (!arguments.database.empty())
    return give_up(
        {"-o",
         "a Thunder trace is a program, not a recorded run: 'foregather simulate FILE -o "
         "RUN.db' predicts its run, --dump writes its schedule",
         Fault::input});
  for (const tasks::ImportedFile& file : *files)
    for (const std::string& warning : file.warnings) complain("warning: " + warning);
  if (arguments.json) return print(tasks::to_json(*files));
  std::string text;
  for (const tasks::ImportedFile& file : *files) text += (text.empty() ? "" : "\n") + text_of(file);
  return print(text);
}

}  // namespace

Command import_command() {
  const auto arguments = std::make_shared<Arguments>();
  Command command;
  command.name = "import";
  command.summary = "reads what other tools printed or recorded";
  command.description =
      "Reads files of other tools and says what they hold. So far: printed traces of "
      "lightning-thunder, in any printing style since 2023, several in a file too. The peak is "
      "that "
      "of Thunder's own estimator (thunder.examine).\n\nLines that are not read are counted and "
      "named.";
  command.options = {
      {"FILE", "", "a printed Thunder trace; may be repeated. The content decides", nullptr,
       nullptr, &arguments->files, true},
      {"-o,--output", "RUN.db", "writes a recorded run; a Thunder trace is none", nullptr,
       &arguments->database, nullptr},
      {"--json", "",
       "prints one JSON object and nothing else: one file's figures at the top level, of several "
       "under 'files' by path",
       &arguments->json, nullptr, nullptr},
  };
  command.examples = {
      "foregather import traces/samples/thunder_mlp_zero3_forward.txt\twhat is in this trace?",
      "foregather import forward.txt backward.txt --json\tof two traces, for a program",
  };
  command.run = [arguments] { return run(*arguments); };
  return command;
}

}  // namespace foregather::cli
