#include "tasks/import_run.h"

#include <filesystem>
#include <memory>

#include "core/rebuild/processes.h"
#include "tasks/outputs.h"
#include "tasks/version.h"

namespace foregather::tasks {
namespace {

std::string run_name(const std::string& path) {
  const std::string file = std::filesystem::path(path).filename().string();
  const std::string name = file.substr(0, file.find('.', 1));
  return name.empty() ? "imported" : name;
}

}  // namespace

Result<rebuild::MeasuredRun> recorded_run(const std::vector<ImportedFile>& files,
                                          std::optional<std::int64_t> step) {
  std::vector<std::shared_ptr<const run::Recording>> processes;
  for (const ImportedFile& file : files) {
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
  auto measured = recorded_run(files, step);
  if (!measured) return tl::unexpected(measured.error());
  if (const Status written = outputs->write({&measured->run, 1}, {}, inputs); !written)
    return tl::unexpected(written.error());
  ImportedRun imported;
  imported.warnings = std::move(measured->warnings);
  if (measured->clocks.size() == 1) return imported;
  for (const auto& [rank, clock] : measured->clocks) {
    RankClock& row = imported.clocks.emplace_back(RankClock{rank, {}});
    if (clock) row.clock = {clock->offset, clock->uncertainty};
  }
  return imported;
}

}  // namespace foregather::tasks
