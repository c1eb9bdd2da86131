#include "tasks/export.h"

#include <algorithm>

#include "core/alloc/config.h"
#include "core/compare/matching.h"
#include "core/compare/replayed.h"
#include "core/compare/step_begins.h"
#include "core/plan/workload_toml.h"
#include "core/store/location.h"
#include "core/store/reader.h"
#include "tasks/outputs.h"
#include "tasks/stored_prediction.h"
#include "traces/formats.h"

namespace foregather::tasks {

std::vector<ExportFormat> export_formats() {
  std::vector<ExportFormat> formats;
  for (const traces::Format& format : traces::formats())
    formats.push_back({std::string(format.name), std::string(format.doc)});
  return formats;
}

Status write_run(run::RunView run, const std::string& format, PendingFile& file) {
  const auto found = traces::find_format(format);
  if (!found) return tl::unexpected(found.error());
  const traces::PlacedRun placed{&run, 0, {}};
  return found->write({&placed, 1}, [&](std::string_view text) { return file.write(text); });
}

namespace {

// What the run's options or its workload say of the allocator; empty: nothing.
std::string allocator_conf_of(const run::RunInfo& about) {
  SimulateRequest request;
  if (ask_as_predicted(about, request)) {
    const auto workload = plan::parse_workload(about.source_text, about.source, request.sets);
    return workload ? workload->allocator_conf : "";
  }
  return alloc::parse_alloc_conf(about.options) ? about.options : "";
}

Ns first_begin(run::RunView run) {
  Ns begin = run.steps.front().begin;
  for (const run::StepInfo& step : run.steps) begin = std::min(begin, step.begin);
  return begin;
}

// Where what compare compares of both begins; 0 of a run without steps.
std::pair<Ns, Ns> compared_begins(run::RunView first, run::RunView second) {
  const auto chosen = [](run::RunView run, run::RunView other) {
    return run.classes.empty()
               ? run::StepRow()
               : compare::step_to_compare(run, run::ClassRow(0), compare::replayed_step(other));
  };
  const run::StepRow own = chosen(first, second), other = chosen(second, first);
  std::pair<Ns, Ns> begins{own ? first.steps[own.row()].begin : 0,
                           other ? second.steps[other.row()].begin : 0};
  if (own && other) begins = compare::step_begins(first, own, second, other);
  if (own && compare::meets_all_steps(second, first)) begins.first = first_begin(first);
  if (other && compare::meets_all_steps(first, second)) begins.second = first_begin(second);
  return begins;
}

}  // namespace

Status export_runs(const std::vector<std::string>& locations, const std::string& format,
                   const std::string& output) {
  const auto found = traces::find_format(format);
  if (!found) return tl::unexpected(found.error());
  if (locations.size() > found->most_runs)
    return fail("{} runs are too many for the format {}, expected {}", locations.size(), format,
                found->most_runs == 1 ? "one (perfetto takes two)" : "one or two");
  for (const std::string& location : locations)
    if (is_same_file(store::parse_location(location).path, output))
      return fail_at(output, "is the database to export, expected another file to write");
  auto file = output == "-" ? PendingFile::standard_output() : PendingFile::create(output);
  if (!file) return tl::unexpected(file.error());
  std::vector<run::Run> runs;
  for (const std::string& location : locations) {
    auto run = store::read_run(location);
    if (!run) return tl::unexpected(run.error());
    runs.push_back(std::move(*run));
  }
  const auto [first, second] = compared_begins(runs.front(), runs.back());
  std::vector<traces::PlacedRun> placed;
  for (const run::Run& run : runs)
    placed.push_back({&run, placed.empty() ? first : second, allocator_conf_of(run.about)});
  const Status written =
      found->write(placed, [&](std::string_view text) { return file->write(text); });
  if (!written) return written;
  return file->commit();
}

}  // namespace foregather::tasks
