#include "tasks/merge.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "core/store/reader.h"
#include "core/store/sweep_reader.h"
#include "core/store/sweep_writer.h"
#include "core/store/writer.h"

namespace foregather::tasks {
namespace {

Status merge_runs(const std::vector<std::string>& paths, const std::string& output) {
  std::set<std::string> names;
  auto writer = store::RunWriter::create(output);
  if (!writer) return tl::unexpected(writer.error());
  for (const std::string& path : paths) {
    const auto runs = store::run_names(path);
    if (!runs) return tl::unexpected(runs.error());
    for (const std::string& name : *runs) {
      if (!names.insert(name).second)
        return fail_at(path,
                       "holds a run '{}', as a database before it does, expected runs of other "
                       "names: 'foregather compare A B -o OUT' puts two of one name into one "
                       "database",
                       name);
      const auto run = store::read_run(path + ":" + name);
      if (!run) return tl::unexpected(run.error());
      if (const Status written = writer->write(*run); !written) return written;
    }
  }
  return writer->finish();
}

Result<MergedSweep> merge_sweeps(const std::vector<std::string>& paths, const std::string& output) {
  const auto points = store::merge_sweeps(paths, output);
  if (!points) return tl::unexpected(points.error());
  const auto whole = store::SweepReader::open(output);
  if (!whole) return tl::unexpected(whole.error());
  return MergedSweep{*points, whole->info().points,
                     whole->info().options.find("--where ") != std::string::npos};
}

// Why a file is not one of several sweeps.
Error other_than_sweep(const std::string& path) {
  const auto runs = store::run_names(path);
  const auto sweep = store::SweepReader::open(path);
  if (!runs || (runs->empty() && !sweep)) return (runs ? sweep.error() : runs.error());
  return {path, "holds no sweep, as others of these do: expected sweeps, or runs", Fault::input};
}

}  // namespace

Result<std::optional<MergedSweep>> merge(const std::vector<std::string>& paths,
                                         const std::string& output) {
  for (const std::string& path : paths) {
    std::error_code ignored;
    if (std::filesystem::equivalent(path, output, ignored))
      return fail_at(output, "is one of the databases to merge, expected another file");
  }
  const auto is_sweep = [](const std::string& path) { return store::is_sweep(path); };
  const auto sweeps = std::ranges::count_if(paths, is_sweep);
  if (sweeps == std::ssize(paths))
    return merge_sweeps(paths, output).map([](const MergedSweep& sweep) {
      return std::optional(sweep);
    });
  if (sweeps != 0)
    return tl::unexpected(other_than_sweep(*std::ranges::find_if_not(paths, is_sweep)));
  if (const Status merged = merge_runs(paths, output); !merged)
    return tl::unexpected(merged.error());
  return std::nullopt;
}

}  // namespace foregather::tasks
