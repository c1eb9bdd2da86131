#include "tasks/validation/validate.h"

#include <fmt/format.h>

#include <memory>
#include <optional>

#include "cli/command.h"
#include "cli/progress.h"
#include "cli/terminal.h"
#include "tasks/validation/bars.h"
#include "tasks/validation/report.h"
#include "tasks/validation/tables_out.h"

namespace foregather::cli {
namespace {

struct ValidateArguments {
  tasks::ValidateRequest request;
  bool json = false, check = false, fit = false;
};

int run_fit(const ValidateArguments& arguments) {
  const tasks::ValidateRequest& request = arguments.request;
  if (arguments.json || arguments.check || !request.predictions.empty() || !request.report.empty())
    return give_up(Error{{},
                         "--fit prints what it finds and no predictions: leave out --json, "
                         "--check, --predictions and --report",
                         Fault::input});
  std::optional<ProgressLine> line;
  std::string_view of;
  const auto text = tasks::fit_to(request, [&](const tasks::FitProgress& progress) {
    if (progress.of != of) line.emplace();
    of = progress.of;
    const double share = static_cast<double>(progress.done) / static_cast<double>(progress.all);
    line->show(share, [&] {
      return fmt::format("{} of {} {}", progress.done, progress.all, progress.of);
    });
  });
  line.reset();
  return text ? print(*text) : give_up(text.error());
}

int run_validate(const ValidateArguments& arguments) {
  if (arguments.request.measured.empty() && arguments.request.nccl_tests.empty() &&
      arguments.request.gpu_steps.empty())
    return give_up(Error{
        {}, "nothing to validate: give --measured, --nccl-tests or --gpu-steps", Fault::input});
  if (arguments.fit) return run_fit(arguments);
  const auto validation = tasks::validate(arguments.request);
  if (!validation) return give_up(validation.error());
  for (const tasks::RowResult& row : validation->rows)
    for (const std::string& warning : row.row.warnings) complain("warning: " + warning);
  const int printed = arguments.json ? print_json(tasks::to_json(*validation))
                                     : print(tasks::report_text(*validation));
  if (printed != 0 || !arguments.check) return printed;
  bool holds = true, is_known = false;
  for (const tasks::Bar& bar : tasks::bars(*validation)) {
    is_known |= bar.holds.has_value();
    if (bar.holds.value_or(true)) continue;
    complain("does not hold: " + bar.text);
    holds = false;
  }
  if (!is_known) complain("no bar was checked: the tables have no predicted row with an answer");
  return holds && is_known ? 0 : 1;
}

std::vector<Option> options(ValidateArguments& arguments) {
  tasks::ValidateRequest& request = arguments.request;
  return {
      {"--measured", "CSV", "a table of measured training runs; docs/formats.md names its columns",
       nullptr, &request.measured, nullptr},
      {"--nccl-tests", "DIR", "a folder of nccl-tests tables as CSV", nullptr, &request.nccl_tests,
       nullptr},
      {"--predictions", "OUT.csv",
       "writes id, step_time_s, peak_mem_gib, fits and skip_reason of every row, and with "
       "--nccl-tests nccl_predictions.csv beside it",
       nullptr, &request.predictions, nullptr},
      {"--report", "OUT.md",
       "writes the report for people, and its pictures into the folder OUT beside it", nullptr,
       &request.report, nullptr},
      {"--gpu-check", "FILE",
       "for the report: the table of schedules run on a GPU that ./dev gpu-check wrote "
       "(measured.md)",
       nullptr, &request.gpu_check, nullptr},
      {"--gpu-steps", "CSV",
       "a table of steps measured on a GPU, with their workloads; docs/formats.md names its "
       "columns",
       nullptr, &request.gpu_steps, nullptr},
      {"--workloads", "DIR", "keeps the workload of every row there, for `foregather simulate`",
       nullptr, &request.workloads, nullptr},
      {"--fit", "",
       "prints the figures of hardware files that are fitted to step times and to times of "
       "collectives, and the error when a group or table is left out; some minutes",
       &arguments.fit, nullptr, nullptr},
      {"--json", "", "prints one JSON object and nothing else", &arguments.json, nullptr, nullptr},
      {"--check", "", "exits with 1 when a bar of docs/validation.md does not hold",
       &arguments.check, nullptr, nullptr},
  };
}

}  // namespace

Command validate_command() {
  const auto arguments = std::make_shared<ValidateArguments>();
  Command command;
  command.name = "validate";
  command.summary = "compares predictions with published training results";
  command.description =
      "Builds the workload of every row of a table of measured runs from its key columns, predicts "
      "step time and peak memory, and prints the errors by tier and group. Rows that cannot be "
      "expressed are listed with the reason. Answers may be blank: --predictions then writes what "
      "others can score.";
  command.options = options(*arguments);
  command.examples = {
      "foregather validate --measured measured.csv --nccl-tests nccl-tests/\tthe errors by group",
      "foregather validate --measured blank.csv --predictions out.csv\tpredictions alone",
  };
  command.run = [arguments] { return run_validate(*arguments); };
  return command;
}

}  // namespace foregather::cli
