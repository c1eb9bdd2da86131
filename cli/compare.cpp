#include "tasks/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "cli/command.h"
#include "cli/step.h"
#include "cli/terminal.h"
#include "core/base/printable.h"
#include "core/base/text.h"

namespace foregather::cli {
namespace {

struct Arguments {
  std::string first, second, step;
  bool json = false;
};

std::string percent(double share) { return fmt::format("{:+.1f} %", 100 * share); }

std::string signed_time(Ns time) { return (time < 0 ? "−" : "+") + format_time(std::abs(time)); }

std::string side_name(const tasks::ComparedSide& side) {
  return fmt::format("{}, rank {}", side.is_measured ? "measured" : "predicted", side.rank);
}

std::string times(const tasks::Comparison& comparison) {
  const auto& [a, b] = std::tie(comparison.first, comparison.second);
  TextTable table;
  table.row({"", side_name(a), side_name(b), "difference", ""});
  const auto row = [&](const char* what, Ns first, Ns second) {
    table.row({what, format_time(first), format_time(second), signed_time(first - second),
               second == 0
                   ? ""
                   : percent(static_cast<double>(first - second) / static_cast<double>(second))});
  };
  row("step", a.step_time, b.step_time);
  row("compute", a.busy.compute, b.busy.compute);
  row("communication", a.busy.comm, b.busy.comm);
  row("  exposed", a.busy.exposed, b.busy.exposed);
  row("  hidden", a.busy.comm - a.busy.exposed, b.busy.comm - b.busy.exposed);
  row("  waiting for ranks", a.busy.wait, b.busy.wait);
  row("critical path: compute", a.path.compute, b.path.compute);
  row("  communication", a.path.comm, b.path.comm);
  row("  host", a.path.host, b.path.host);
  row("  other", a.path.other, b.path.other);
  if (comparison.peak_memory_error()) {
    const bool reserved = a.peak_reserved > 0 && b.peak_reserved > 0;
    table.row({reserved ? "peak reserved" : "peak allocated",
               format_bytes(reserved ? a.peak_reserved : a.peak_allocated),
               format_bytes(reserved ? b.peak_reserved : b.peak_allocated), "",
               percent(*comparison.peak_memory_error())});
  }
  return table.text(2);
}

std::string kinds(const tasks::Comparison& comparison) {
  TextTable table;
  table.row({"By kind", "n", "first", "second", "bias", "mean |error|"});
  for (const auto& [kind, residual] : comparison.by_kind)
    table.row({"  " + std::string(kind), format_count(residual.n), format_time(residual.first),
               format_time(residual.second), percent(residual.bias),
               fmt::format("{:.1f} %", 100 * residual.mape)});
  return "\n" + table.text();
}

std::string matched(const tasks::Comparison& comparison) {
  const compare::Matching& matching = comparison.matching;
  std::string text = "\nMatched, by busy time of the second:";
  for (std::size_t level = 0; level < compare::kMatchLevels; ++level)
    text += fmt::format(" {} {:.1f} %", name(static_cast<compare::MatchLevel>(level)),
                        matching.second_time == 0
                            ? 0.0
                            : 100.0 * static_cast<double>(matching.second_matched[level]) /
                                  static_cast<double>(matching.second_time));
  return text + fmt::format("\n  {} groups; only in the first {}, only in the second {}\n",
                            format_count(static_cast<std::int64_t>(matching.groups.size())),
                            format_count(static_cast<std::int64_t>(matching.only_first.size())),
                            format_count(static_cast<std::int64_t>(matching.only_second.size())));
}

constexpr std::size_t kMostChanged = 12, kLongestName = 72;

std::string changed(const tasks::Comparison& comparison) {
  const auto groups = most_changed(comparison, kMostChanged);
  if (groups.empty()) return "\nNo group took another time.\n";
  TextTable table;
  table.row({"Changed most", "first", "second", "difference"});
  for (const compare::MatchedGroup* group : groups)
    table.row({"  " + printable(group->key.substr(0, kLongestName)), format_time(group->first_time),
               format_time(group->second_time),
               signed_time(group->first_time - group->second_time)});
  return "\n" + table.text();
}

std::string kernels(const tasks::Comparison& comparison) {
  TextTable table;
  table.row({"Changed most, by kernel", "n", "first", "n", "second", "difference"});
  for (std::size_t i = 0; i < std::min(kMostChanged, comparison.kernels.size()); ++i) {
    const compare::KernelChange& kernel = comparison.kernels[i];
    table.row({"  " + printable(kernel.name.substr(0, kLongestName)),
               format_count(kernel.first_ops), format_time(kernel.first_time),
               format_count(kernel.second_ops), format_time(kernel.second_time),
               signed_time(kernel.first_time - kernel.second_time)});
  }
  return "\n" + table.text();
}

int run(const Arguments& arguments) {
  const auto step = parse_step(arguments.step);
  if (!step) return give_up(step.error());
  const auto comparison = tasks::compare_runs(arguments.first, arguments.second, *step);
  if (!comparison) return give_up(comparison.error());
  for (const std::string& warning : comparison->warnings) complain("warning: " + warning);
  if (arguments.json) return print_json(tasks::to_json(*comparison));
  return print(
      fmt::format("{} against {}\n{}{}{}{}", printable(comparison->first.run),
                  printable(comparison->second.run), times(*comparison), kinds(*comparison),
                  matched(*comparison),
                  comparison->kernels.empty() ? changed(*comparison) : kernels(*comparison)));
}

}  // namespace

Command compare_command() {
  const auto arguments = std::make_shared<Arguments>();
  Command command;
  command.name = "compare";
  command.summary = "compares two runs: predicted with measured, or one with another";
  command.description =
      "Joins the ops of two runs at the finest level that both know (op, scope and kind, scope and "
      "phase, phase) and prints how far step time, communication, critical path, memory and each "
      "kind of op are apart. Differences are first less second, shares of the second. Two measured "
      "runs meet kernel by kernel. What matches nothing is counted and listed.";
  command.options = {
      {"PREDICTED", "", "the first run: RUN.db, or RUN.db:NAME", nullptr, &arguments->first,
       nullptr, true},
      {"MEASURED", "", "the second run, predicted or measured as well", nullptr, &arguments->second,
       nullptr, true},
      {"--step", "N", "which step of measured runs; else the last one", nullptr, &arguments->step,
       nullptr},
      {"--json", "", "prints one JSON object and nothing else", &arguments->json, nullptr, nullptr},
  };
  command.examples = {
      "foregather compare predicted.db measured.db\thow far off was the prediction?",
      "foregather compare after.db before.db\twhat did a change give?",
  };
  command.run = [arguments] { return run(*arguments); };
  return command;
}

}  // namespace foregather::cli
