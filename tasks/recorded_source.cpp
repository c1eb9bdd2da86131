#include "tasks/recorded_source.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "core/base/text.h"
#include "core/rebuild/processes.h"
#include "core/rebuild/run_recording.h"
#include "core/rebuild/window.h"
#include "core/store/reader.h"
#include "tasks/import.h"
#include "traces/text_source.h"
#include "traces/timeline.h"

namespace foregather::tasks {

namespace {

constexpr std::int64_t kMostDropped = std::int64_t{1} << 60;

// Each rank class of the run is a recording.
Status add_run(const std::string& location, std::optional<std::int64_t> step,
               RecordedFiles& files) {
  const auto run = store::read_run(location);
  if (!run) return tl::unexpected(run.error());
  for (std::string& warning : warnings_about(run->about, location))
    files.warnings.push_back(std::move(warning));
  if (auto warning = warning_of(run->about.dropped, location))
    files.warnings.push_back(std::move(*warning));
  const bool is_predicted = run->about.kind == run::RunKind::predicted;
  files.is_predicted |= is_predicted;
  if (is_predicted && step)
    return fail_at("--step", "chooses a step of a recorded run, and {} is predicted", location);
  for (std::size_t c = 0; c < run->classes.size(); ++c) {
    std::optional<run::StepRow> row;
    std::vector<std::uint32_t> numbers;
    for (std::size_t s = 0; s < run->steps.size(); ++s) {
      const run::StepInfo& info = run->steps[s];
      if (info.rank_class != run::ClassRow(c)) continue;
      numbers.push_back(info.number);
      if (is_predicted ? info.kind == run::StepKind::steady : step && info.number == *step)
        row = run::StepRow(s);
    }
    if (step && !row)
      return fail_at(location, "has no step {}, expected one of {}", *step,
                     fmt::join(numbers, ", "));
    if (!step && !is_predicted && numbers.size() > 1 && c == 0)
      files.step_warnings.push_back(
          fmt::format("{}: has {} steps ({} to {}), which are taken as one: --step N takes one of "
                      "them",
                      location, numbers.size(), numbers.front(), numbers.back()));
    auto recording = rebuild::recording_of(*run, run::ClassRow(c), row);
    recording.source = location;
    files.recordings.push_back(std::make_shared<run::Recording>(std::move(recording)));
  }
  return {};
}

// A step of a recording is its device work. What the host's step has beside it (data that is waited
// for) is no part of that.
std::optional<std::string> warning_of_host_step(const run::Recording& recording, Ns measured,
                                                std::int64_t step) {
  constexpr double kNoticed = 1.05;
  const auto steps = rebuild::host_steps(recording);
  const auto found = steps.find(step);
  if (found == steps.end()) return std::nullopt;
  const Ns took = found->second.end - found->second.begin;
  if (static_cast<double>(took) < kNoticed * static_cast<double>(measured)) return std::nullopt;
  return fmt::format(
      "{}: step {} took the host {}, and {} from the first to the last device work, which is what "
      "is predicted",
      recording.source, step, format_time(took), format_time(measured));
}

// What other steps launched is no part of a step: it waits for that, and no change moves it.
std::optional<std::string> warning_of_other_steps(const run::Recording& recording, Ns measured,
                                                  std::int64_t step) {
  constexpr double kNoticed = 0.02;
  const auto window = rebuild::window_of(recording, step);
  if (!window || window->activities.empty()) return std::nullopt;
  const run::ActivityColumns& rows = recording.activities;
  std::vector<bool> is_own(rows.size());
  for (const run::ActivityRow row : window->activities) is_own[row.row()] = true;
  std::vector<std::pair<Ns, Ns>> others;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (!is_own[i] && rows.start[i] < window->end && rows.end[i] > window->begin)
      others.emplace_back(std::max(rows.start[i], window->begin),
                          std::min(rows.end[i], window->end));
  std::ranges::sort(others);
  Ns busy = 0, until = window->begin;
  for (const auto& [start, end] : others) {
    busy += std::max<Ns>(end - std::max(start, until), 0);
    until = std::max(until, end);
  }
  if (static_cast<double>(busy) <= kNoticed * static_cast<double>(measured)) return std::nullopt;
  return fmt::format(
      "{}: in step {} the device works on other steps, too, for {} of {}: what "
      "waits for that stays where it was under a what-if; without --step all steps are taken as "
      "one",
      recording.source, step, format_time(busy), format_time(measured));
}

// Between the steps of an exported prediction are those that it left out: the last stands for all.
std::optional<std::int64_t> last_step(const std::vector<const run::Recording*>& recordings) {
  const std::vector<std::int64_t> steps = rebuild::steps_of(*recordings.front());
  return steps.empty() ? std::nullopt : std::optional(steps.back());
}

}  // namespace

std::vector<std::string> warnings_about(const run::RunInfo& about, const std::string& location) {
  std::vector<std::string> warnings;
  if (about.state == run::RunState::under_way)
    warnings.push_back(fmt::format(
        "{}: is still recorded, or was cut short: its rows end where the recording did", location));
  if (about.state == run::RunState::failed)
    warnings.push_back(fmt::format("{}: the job failed: its rows end there", location));
  warnings.insert(warnings.end(), about.warnings.begin(), about.warnings.end());
  return warnings;
}

std::optional<std::string> warning_of(const run::EventCounts& dropped,
                                      const std::string& location) {
  std::int64_t events = 0;
  std::string reasons;
  for (const auto& [reason, count] : dropped) {
    events = count > kMostDropped - events ? kMostDropped : events + count;
    reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", reason, count);
  }
  if (events == 0) return std::nullopt;
  return fmt::format("{}: {} damaged event{} dropped, and {} in nothing here: {}", location, events,
                     events == 1 ? " was" : "s were", events == 1 ? "is" : "are", reasons);
}

Result<bool> is_recorded(const std::string& path) {
  if (store::is_run(path)) return true;
  const auto head = traces::format_head(path, begins_recorded_run);
  if (!head) return tl::unexpected(head.error());
  return begins_recorded_run(*head);
}

bool is_timeline(const std::string& path) {
  if (store::is_run(path)) return false;
  const auto head = traces::format_head(path, traces::is_timeline);
  return head && traces::is_timeline(*head);
}

Result<RecordedFiles> read_recorded(const std::vector<std::string>& paths,
                                    std::optional<std::int64_t> step) {
  RecordedFiles read;
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    if (!store::is_run(path)) {
      files.push_back(path);
      continue;
    }
    read.are_runs = true;
    if (const Status added = add_run(path, step, read); !added)
      return tl::unexpected(added.error());
  }
  if (read.are_runs && !files.empty())
    return fail_at(files.front(),
                   "is no run database as the others are: expected one or the other");
  if (!read.are_runs) {
    const auto imported = import_files(files);
    if (!imported) return tl::unexpected(imported.error());
    for (const ImportedFile& file : *imported) {
      if (!file.recording)
        return fail_at(file.path,
                       "is a program, no recorded run: expected torch.profiler traces, Nsight "
                       "Systems exports (SQLite), timelines or a RUN.db");
      read.recordings.push_back(file.recording);
      read.is_predicted |= file.recording->is_predicted;
      read.warnings.insert(read.warnings.end(), file.warnings.begin(), file.warnings.end());
      if (auto warning = warning_of(file.dropped, file.path))
        read.warnings.push_back(std::move(*warning));
    }
  }
  read.recordings = rebuild::one_a_rank(read.recordings);
  for (const auto& recording : read.recordings) {
    if (recording->devices.empty()) continue;
    const std::string& device = recording->devices.front();
    if (read.device.empty()) read.device = device;
    if (!read.other_device.empty() || device == read.device) continue;
    read.other_device = device;
    read.other_source = recording->source;
  }
  return read;
}

Result<RecordedSource> load_recorded(const std::vector<std::string>& paths,
                                     std::optional<std::int64_t> step) {
  auto read = read_recorded(paths, step);
  if (!read) return tl::unexpected(read.error());
  std::vector<const run::Recording*> recordings;
  for (const auto& recording : read->recordings) recordings.push_back(recording.get());
  if (read->are_runs)
    step.reset();
  else if (read->is_predicted && !step)
    step = last_step(recordings);
  auto rebuilt = rebuild::rebuild(recordings, {step});
  if (!rebuilt) return tl::unexpected(rebuilt.error());
  std::vector<std::string> warnings = std::move(read->warnings);
  warnings.insert(warnings.end(), read->step_warnings.begin(), read->step_warnings.end());
  if (read->are_runs && read->is_predicted)
    warnings.push_back(fmt::format(
        "{}: is a prediction: its ops are replayed as they ran, without memory and with "
        "less of collectives than what it was predicted from says: simulate that",
        recordings.front()->source));
  const std::vector<std::int64_t> steps = rebuild::steps_of(*recordings.front());
  if (!step && !read->are_runs && steps.size() > 1)
    warnings.push_back(
        fmt::format("{}: has {} steps ({} to {}), which are taken as one: --step N "
                    "takes one of them",
                    recordings.front()->source, steps.size(), steps.front(), steps.back()));
  for (std::string& warning : rebuilt->warnings)  // a run may have kept what rebuilding says anew
    if (std::ranges::find(warnings, warning) == warnings.end())
      warnings.push_back(std::move(warning));
  for (const rebuild::RebuiltRank& rank : rebuilt->ranks)
    if (const auto of = std::ranges::find(recordings, rank.source, &run::Recording::source);
        step && !read->is_predicted && of != recordings.end())
      for (auto& warning : {warning_of_host_step(**of, rank.measured, *step),
                            warning_of_other_steps(**of, rank.measured, *step)})
        if (warning) warnings.push_back(*warning);
  rebuilt->warnings = std::move(warnings);
  return RecordedSource{std::move(*rebuilt), std::move(read->device), read->is_predicted};
}

}  // namespace foregather::tasks
