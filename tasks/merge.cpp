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
        return fail_at(path, "holds a run '{}', as a database before it does", name);
      const auto run = store::read_run(path + ":" + name);
      if (!run) return tl::unexpected(run.error());
      if (const Status written = writer->write(*run); !written) return written;
    }
  }
  return writer->finish();
}

}  // namespace

Status merge(const std::vector<std::string>& paths, const std::string& output) {
  for (const std::string& path : paths) {
    std::error_code ignored;
    if (std::filesystem::equivalent(path, output, ignored))
      return fail_at(output, "is one of the databases to merge, expected another file");
  }
  const auto is_sweep = [](const std::string& path) { return store::is_sweep(path); };
  const auto sweeps = std::ranges::count_if(paths, is_sweep);
  if (sweeps == std::ssize(paths)) return store::merge_sweeps(paths, output);
  if (sweeps == 0) return merge_runs(paths, output);
  const auto other = std::ranges::find_if_not(paths, is_sweep);
  return fail_at(*other, "holds no sweep, as others of these do: expected sweeps, or runs");
}

}  // namespace foregather::tasks
