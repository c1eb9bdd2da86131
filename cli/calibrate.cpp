#include "tasks/calibrate.h"

#include <charconv>
#include <memory>

#include "cli/calibrate_text.h"
#include "cli/command.h"
#include "cli/terminal.h"

namespace foregather::cli {
namespace {

struct CalibrateArguments {
  tasks::CalibrateRequest request;
  std::string holdout;
  bool json = false;
};

int run_calibrate(CalibrateArguments& arguments) {
  if (!arguments.holdout.empty()) {
    double share = 0;
    const char* const end = arguments.holdout.data() + arguments.holdout.size();
    const auto [last, error] = std::from_chars(arguments.holdout.data(), end, share);
    if (error != std::errc() || last != end || !(share > 0 && share < 1))
      return give_up(Error{
          "--holdout",
          fmt::format("'{}' is no share, expected a number above 0 and below 1", arguments.holdout),
          Fault::input});
    arguments.request.holdout = share;
  }
  const auto report = tasks::calibrate_hardware(arguments.request);
  if (!report) return give_up(report.error());
  for (const std::string& warning : report->warnings) complain("warning: " + warning);
  return arguments.json ? print_json(tasks::to_json(*report)) : print(calibrate_text(*report));
}

}  // namespace

Command calibrate_command() {
  const auto arguments = std::make_shared<CalibrateArguments>();
  Command command;
  command.name = "calibrate";
  command.summary = "fits the cost model to recorded runs";
  command.description =
      "Reads the device work of recorded runs, groups it by distinct (kernel, shape), and writes a "
      "hardware file for --hw: figures of the cost model fitted to these times, and the times "
      "themselves, between which predictions are taken from them. Work larger or smaller than all "
      "that was measured is priced by the fitted figures and marked as extrapolated.\n\n"
      "The errors printed are of shapes that the fit had not seen: by default every second one is "
      "predicted from the others, and the others from these. 'median' and 'p90' know the kernel "
      "and "
      "its grid; 'priced' knows what a schedule knows, as simulate does; 'inside' counts only "
      "shapes "
      "between measured ones of their kernel.\n\n"
      "Shapes of operators need a profile with record_shapes=True; without them a kernel's grid is "
      "its shape.";
  command.options = {
      {"SOURCE", "",
       "recorded runs: torch.profiler traces, Nsight Systems exports, RUN.db; several are ranks or "
       "runs of one machine",
       nullptr, nullptr, &arguments->request.sources, true},
      {"--hw", "NAME",
       "the machine to start from: a built-in name or the path of a hardware file. Default: that "
       "of "
       "the GPU's name in the recording",
       nullptr, &arguments->request.hardware, nullptr},
      {"--holdout", "F",
       "predicts this share of the distinct shapes, evenly spread, from the rest, instead of each "
       "half from the other",
       nullptr, &arguments->holdout, nullptr},
      {"-o,--output", "HW.toml", "the hardware file to write", nullptr, &arguments->request.output,
       nullptr, true},
      {"--json", "", "prints one JSON object and nothing else", &arguments->json, nullptr, nullptr},
  };
  command.examples = {
      "foregather calibrate trace.json.gz -o mine.toml\tfits the machine that recorded it",
      "foregather simulate job.toml --hw mine.toml\tpredicts with the result",
      "foregather calibrate rank*.json.gz --hw a100_80_sxm --holdout 0.25 -o mine.toml\tfits to "
      "all "
      "ranks, tests on a quarter of the shapes",
  };
  command.run = [arguments] { return run_calibrate(*arguments); };
  return command;
}

}  // namespace foregather::cli
