#include "tasks/compare.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <memory>
#include <optional>

#include "cli/command.h"
#include "cli/compare_text.h"
#include "cli/step.h"
#include "cli/terminal.h"
#include "core/base/printable.h"
#include "core/base/result.h"

namespace foregather::cli {
namespace {

struct CompareArguments {
  std::string first, second, step, ranks, database;
  bool json = false;
};

// "3", "0:3": rank of the first and of the second run.
Result<std::optional<std::array<std::uint32_t, 2>>> parse_ranks(const std::string& text) {
  if (text.empty()) return std::nullopt;
  std::array<std::uint32_t, 2> ranks{};
  const char* const end = text.data() + text.size();
  auto read = std::from_chars(text.data(), end, ranks[0]);
  ranks[1] = ranks[0];
  if (read.ec == std::errc() && read.ptr != end && *read.ptr == ':')
    read = std::from_chars(read.ptr + 1, end, ranks[1]);
  if (read.ec != std::errc() || read.ptr != end)
    return fail_at("--ranks", "'{}' is no rank, nor two as in 0:3", printable(text));
  return ranks;
}

int run_compare(const CompareArguments& arguments) {
  tasks::CompareRequest request;
  request.first = arguments.first;
  request.second = arguments.second;
  request.database = arguments.database;
  const auto step = parse_step(arguments.step);
  if (!step) return give_up(step.error());
  request.step = *step;
  const auto ranks = parse_ranks(arguments.ranks);
  if (!ranks) return give_up(ranks.error());
  request.ranks = *ranks;
  const auto comparison = tasks::compare_runs(request);
  if (!comparison) return give_up(comparison.error());
  for (const std::string& warning : comparison->warnings) complain("warning: " + warning);
  if (arguments.json) return print_json(tasks::to_json(*comparison));
  std::string text = text_of(*comparison);
  if (!request.database.empty()) text += fmt::format("\nwrote {}\n", printable(request.database));
  return print(text);
}

}  // namespace

Command compare_command() {
  const auto arguments = std::make_shared<CompareArguments>();
  Command command;
  command.name = "compare";
  command.summary = "compares two runs: predicted with measured, or one with another";
  command.description =
      "Joins the ops of two runs at the finest level that both know (op, scope and kind, scope and "
      "phase, phase) and prints how far step time, communication, memory by cause, critical path, "
      "each kind of op and each scope are apart. Differences are first less second, shares of the "
      "second. Two measured runs meet kernel by kernel. What matches nothing is counted and "
      "listed.\n\n"
      "A side is a run of a database, a recording that import reads, a memory snapshot, or what "
      "simulate predicts of any other SOURCE.";
  command.options = {
      {"PREDICTED", "", "the first side: RUN.db, RUN.db:NAME, or a file", nullptr,
       &arguments->first, nullptr, true},
      {"MEASURED", "", "the second side, predicted or measured as well", nullptr,
       &arguments->second, nullptr, true},
      {"--ranks", "A:B",
       "rank A of the first side and rank B of the second, or one number for both; else the first "
       "rank of the second, on both",
       nullptr, &arguments->ranks, nullptr},
      {"--step", "N",
       "which step of measured runs; else the one that the other side replays, else the last",
       nullptr, &arguments->step, nullptr},
      {"-o,--output", "OUT.db", "writes both runs, and which of their ops met, to a new database",
       nullptr, &arguments->database, nullptr},
      {"--json", "", "prints one JSON object and nothing else", &arguments->json, nullptr, nullptr},
  };
  command.examples = {
      "foregather compare predicted.db measured.db\thow far off was the prediction?",
      "foregather compare after.db before.db\twhat did a change give?",
      "foregather compare job.db job.db --ranks 3:0\twhy is rank 3 slower than rank 0?",
      "foregather compare plan.toml rank0.pt.trace.json.gz\ta workload against a recording",
  };
  command.run = [arguments] { return run_compare(*arguments); };
  return command;
}

}  // namespace foregather::cli
