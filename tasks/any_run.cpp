#include "tasks/any_run.h"

#include <filesystem>

#include "core/store/location.h"
#include "core/store/reader.h"
#include "tasks/import_run.h"
#include "tasks/memory.h"
#include "tasks/recorded_source.h"
#include "tasks/simulate.h"
#include "traces/pickle.h"
#include "traces/text_source.h"

namespace foregather::tasks {
namespace {

bool is_snapshot(const std::string& source) {
  std::error_code ignored;
  const bool is_there = std::filesystem::exists(source, ignored);
  if (is_there && !std::filesystem::is_regular_file(source, ignored))
    return false;  // a pipe is read once
  const auto head = traces::format_head(source, traces::is_pickle);
  return head && traces::is_pickle(*head);
}

AnyRun with_warnings(run::Run run, std::vector<std::string> inputs, const std::string& source) {
  std::vector<std::string> warnings = warnings_about(run.about, source);
  return {std::move(run), std::move(inputs), std::move(warnings)};
}

Result<AnyRun> snapshot(const std::string& path) {
  MemoryRequest request;
  request.snapshot = path;
  request.record_runs = true;
  auto report = examine_snapshot(request);
  if (!report) return tl::unexpected(report.error());
  if (report->runs.empty()) return fail_at(path, "has no device with allocations");
  return with_warnings(std::move(report->runs.front()), {path}, path);
}

Result<AnyRun> recording(const std::string& path) {
  const auto files = import_files({path});
  if (!files) return tl::unexpected(files.error());
  auto measured = recorded_run(*files, std::nullopt);
  if (!measured) return tl::unexpected(measured.error());
  return with_warnings(std::move(measured->run), {path.substr(0, path.find('!'))}, path);
}

Result<AnyRun> prediction(const std::string& source) {
  SimulateRequest request;
  request.sources.paths = {source};
  auto outcome = simulate(request);
  if (!outcome) return tl::unexpected(outcome.error());
  return with_warnings(std::move(outcome->run), std::move(outcome->inputs), source);
}

}  // namespace

Result<AnyRun> load_any_run(const std::string& source) {
  const std::string path = store::parse_location(source).path;
  std::error_code ignored;
  // What is no file is an error that names a database.
  const bool is_missing =
      !std::filesystem::exists(path, ignored) && source.find('!') == source.npos;
  if (is_missing || store::is_run(source)) {
    auto run = store::read_run(source);
    if (!run) return tl::unexpected(run.error());
    return with_warnings(std::move(*run), {path}, source);
  }
  if (is_snapshot(source)) return snapshot(source);
  const auto recorded = is_recorded(source);
  if (!recorded) return tl::unexpected(recorded.error());
  return *recorded ? recording(source) : prediction(source);
}

Result<std::vector<std::string>> runs_in(const std::vector<std::string>& sources) {
  std::vector<std::string> found;
  for (const std::string& source : sources) {
    if (!store::is_run(source) || store::parse_location(source).name) {
      found.push_back(source);
      continue;
    }
    const auto names = store::run_names(source);
    if (!names) return tl::unexpected(names.error());
    if (names->size() < 2) {
      found.push_back(source);
      continue;
    }
    for (const std::string& name : *names) found.push_back(source + ":" + name);
  }
  return found;
}

}  // namespace foregather::tasks
