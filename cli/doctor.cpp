#include <fmt/format.h>

#include "cli/command.h"
#include "cli/terminal.h"
#include "tasks/doctor.h"
#include "tasks/version.h"

namespace foregather::cli {
namespace {

int run_doctor() {
  std::string text = fmt::format("{}\n\n", tasks::version());
  for (const tasks::Finding& finding : tasks::examine_machine()) {
    text +=
        fmt::format("{:<3} {:<16}{}\n", finding.present ? "✓" : "–", finding.what, finding.detail);
    if (!finding.enables.empty()) text += fmt::format("    {:<16}for {}\n", "", finding.enables);
    if (!finding.present && !finding.fix.empty())
      text += fmt::format("    {:<16}fix: {}\n", "", finding.fix);
  }
  text += "\nPredictions need none of what is missing.\n";
  return print(text);
}

}  // namespace

Command doctor_command() {
  Command command;
  command.name = "doctor";
  command.summary = "says what this machine offers, and how to get what is missing";
  command.description =
      "Looks for a GPU and its driver, the CUDA backend, CUPTI, NCCL, MPI and a display, and says "
      "what each is good for. Changes nothing.";
  command.run = run_doctor;
  return command;
}

}  // namespace foregather::cli
