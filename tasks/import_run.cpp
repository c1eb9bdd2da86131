#include "tasks/import_run.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "core/rebuild/processes.h"
#include "tasks/memory.h"
#include "tasks/outputs.h"
#include "tasks/version.h"

namespace foregather::tasks {
namespace {

std::string run_name(const std::string& path) {
  const std::string file = std::filesystem::path(path).filename().string();
  const std::string name = file.substr(0, file.find('.', 1));
  return name.empty() ? "imported" : name;
}

// Each a run, named after its file, or after its path where that name is taken.
Result<std::vector<run::Run>> snapshot_runs(const std::vector<ImportedFile>& files) {
  std::vector<run::Run> runs;
  const auto is_taken = [&](const std::string& name) {
    return std::ranges::any_of(runs, [&](const run::Run& run) { return run.about.name == name; });
  };
  for (const ImportedFile& file : files) {
    if (!file.snapshot)
      return fail_at(file.path,
                     "is no memory snapshot: expected only such, each a run of its own, or only "
                     "recordings of a job's ranks");
    MemoryRequest request;
    request.snapshot = file.path;
    request.record_runs = true;
    auto report = examine_snapshot(*file.snapshot, request);
    if (!report) return tl::unexpected(report.error());
    run::Run& run = report->runs.front();
    if (is_taken(run.about.name)) run.about.name = file.path;
    if (is_taken(run.about.name)) return fail_at(file.path, "is named twice, expected once");
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace

Result<rebuild::MeasuredRun> recorded_run(const std::vector<ImportedFile>& files,
                                          std::optional<std::int64_t> step) {
  std::vector<std::shared_ptr<const run::Recording>> processes;
  for (const ImportedFile& file : files) {
    if (file.snapshot)
      return fail_at(
          file.path,
          "is a memory snapshot, a run of its own: expected recordings of a job's ranks");
    if (!file.recording)
      return fail_at(file.path,
                     "is a program, no recorded run: 'foregather simulate' predicts the run of a "
                     "Thunder or a Chakra trace, and --dump writes its schedule");
    processes.push_back(file.recording);
  }
  const auto ranks = rebuild::one_a_rank(processes);
  std::vector<const run::Recording*> recordings;
  for (const auto& rank : ranks) recordings.push_back(rank.get());
  auto measured = rebuild::measured_run(recordings, step);
  if (!measured) return measured;
  run::RunInfo& about = measured->run.about;
  about.name = run_name(files.front().path);
  about.tool = version();
  for (const ImportedFile& file : files) {
    about.source += (about.source.empty() ? "" : "\n") + file.path;
    about.warnings.insert(about.warnings.end(), file.warnings.begin(), file.warnings.end());
    for (const auto& [reason, events] : file.dropped) run::count(about.dropped, reason, events);
    if (!file.recording->timeline.step.empty())
      about.warnings.push_back(
          fmt::format("{}: as a run this timeline is one rank and one step, without collectives: "
                      "'foregather simulate' replays it as the job that it is, -o writes that",
                      file.path));
  }
  about.warnings.insert(about.warnings.end(), measured->warnings.begin(), measured->warnings.end());
  if (step) about.options = "--step " + std::to_string(*step) + "\n";
  if (!recordings.front()->devices.empty()) about.hardware = recordings.front()->devices.front();
  return measured;
}

Result<ImportedRun> import_run(const std::vector<ImportedFile>& files,
                               std::optional<std::int64_t> step, const std::string& database) {
  std::vector<std::string> inputs;
  for (const ImportedFile& file : files) inputs.push_back(file.path.substr(0, file.path.find('!')));
  auto outputs = Outputs::open(database, {}, {});
  if (!outputs) return tl::unexpected(outputs.error());
  ImportedRun imported;
  const auto is_snapshot = [](const ImportedFile& file) { return file.snapshot != nullptr; };
  if (std::ranges::any_of(files, is_snapshot)) {
    if (step) return fail_at("--step", "is of recorded steps: a memory snapshot has none");
    const auto runs = snapshot_runs(files);
    if (!runs) return tl::unexpected(runs.error());
    if (const Status written = outputs->write(*runs, {}, inputs); !written)
      return tl::unexpected(written.error());
    for (const run::Run& run : *runs)
      imported.warnings.insert(imported.warnings.end(), run.about.warnings.begin(),
                               run.about.warnings.end());
    return imported;
  }
  auto measured = recorded_run(files, step);
  if (!measured) return tl::unexpected(measured.error());
  if (const Status written = outputs->write({&measured->run, 1}, {}, inputs); !written)
    return tl::unexpected(written.error());
  imported.warnings = std::move(measured->warnings);
  if (measured->clocks.size() == 1) return imported;
  for (const auto& [rank, clock] : measured->clocks) {
    RankClock& row = imported.clocks.emplace_back(RankClock{rank, {}});
    if (clock) row.clock = {clock->offset, clock->uncertainty};
  }
  return imported;
}

}  // namespace foregather::tasks
