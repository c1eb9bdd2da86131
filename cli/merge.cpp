#include "tasks/merge.h"

#include <fmt/format.h>

#include <memory>

#include "cli/command.h"
#include "cli/terminal.h"
#include "core/base/printable.h"

namespace foregather::cli {
namespace {

struct MergeArguments {
  std::vector<std::string> databases;
  std::string output;
};

int run_merge(const MergeArguments& arguments) {
  if (arguments.databases.empty())
    return give_up(Error{{}, "DB is missing: name the databases to join", Fault::input});
  const auto merged = tasks::merge(arguments.databases, arguments.output);
  if (!merged) return give_up(merged.error());
  const std::string path = printable(arguments.output);
  if (!*merged) return print(fmt::format("wrote {}\n", path));
  const tasks::MergedSweep& sweep = **merged;
  if (sweep.points < sweep.grid)
    complain(fmt::format(
        "warning: {} of {} points are in none of these databases{}", sweep.grid - sweep.points,
        sweep.grid,
        sweep.has_conditions ? ": --where excludes some, and a shard may be missing" : ""));
  return print(
      fmt::format("wrote {}: {} of the {} points of the grid\n", path, sweep.points, sweep.grid));
}

}  // namespace

Command merge_command() {
  const auto arguments = std::make_shared<MergeArguments>();
  Command command;
  command.name = "merge";
  command.summary = "joins the databases of a sweep's shards, or of ranks";
  command.description =
      "Joins databases into a new one, which appears complete or not at all. Parts of one sweep "
      "give the sweep: a point that several have must be the same in all. A sweep with points "
      "that none of them has is not replaced. Runs keep their names.";
  command.options = {
      {"DB", "", "the databases", nullptr, nullptr, &arguments->databases},
      {"-o,--output", "OUT.db", "the new database", nullptr, &arguments->output, nullptr, true},
  };
  command.examples = {"foregather merge part*.db -o sweep.db\tthe shards of a job array"};
  command.run = [arguments] { return run_merge(*arguments); };
  return command;
}

}  // namespace foregather::cli
