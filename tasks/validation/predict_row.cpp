#include "tasks/validation/predict_row.h"

#include <algorithm>
#include <cctype>

#include "core/base/file.h"
#include "core/base/json_writer.h"
#include "core/base/sha256.h"
#include "sim/engine/engine.h"
#include "sim/passes/registry.h"
#include "tasks/busy_figures.h"
#include "tasks/interval.h"
#include "tasks/record_run.h"
#include "tasks/schedule.h"
#include "tasks/validation/row_workload.h"

namespace foregather::tasks {
namespace {

// Another one for each id.
std::string file_stem(const std::string& id) {
  constexpr std::size_t kLongest = 120, kDigits = 12;
  std::string stem = id.substr(0, kLongest);
  for (char& c : stem)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '.' && c != '_')
      c = '_';
  if (stem == id) return stem;
  Sha256 digest;
  digest.update(id);
  return stem + '-' + digest.finish().substr(0, kDigits);
}

Status write_file(const std::string& path, const std::string& text) {
  auto file = PendingFile::create(path);
  if (!file) return tl::unexpected(file.error());
  return file->write(text).and_then([&] { return file->commit_unflushed(); });
}

/// What one simulation says.
struct RowOutcome {
  Schedule schedule;
  sim::Simulation simulation;
  bool fits = false;
};

// Of a schedule that no device holds: how long it takes, with the peaks it came to.
Result<sim::Simulation> simulate_times(Schedule& schedule, const sim::Simulation& held) {
  schedule.engine.memory = false;
  auto simulation = sim::simulate(schedule.graph, schedule.prices, schedule.engine);
  if (!simulation) return simulation;
  for (std::size_t c = 0; c < held.classes.size(); ++c) {
    simulation->classes[c].first.peaks = held.classes[c].first.peaks;
    simulation->classes[c].steady.peaks = held.classes[c].steady.peaks;
  }
  return simulation;
}

Result<RowOutcome> simulate_file(const std::string& path, const std::vector<std::string>& what_if) {
  const auto passes = sim::parse_passes(what_if);
  if (!passes) return tl::unexpected(passes.error());
  auto schedule = load_schedule(path, {}, *passes);
  if (!schedule) return tl::unexpected(schedule.error());
  schedule->engine.record_memory = false;
  auto simulation = sim::simulate(schedule->graph, schedule->prices, schedule->engine);
  if (!simulation) return tl::unexpected(simulation.error());
  const bool fits = !simulation->oom;
  if (!fits) {
    schedule->engine.capacity = 0;
    simulation = sim::simulate(schedule->graph, schedule->prices, schedule->engine);
    if (simulation && simulation->oom) simulation = simulate_times(*schedule, *simulation);
    if (!simulation) return tl::unexpected(simulation.error());
  }
  return RowOutcome{std::move(*schedule), std::move(*simulation), fits};
}

StepShares shares_of(const RowOutcome& outcome) {
  Summary summary;
  for (const RankClass& rank_class : outcome.schedule.graph.classes) {
    ClassFigures figures;
    const auto ranks = outcome.schedule.graph.ranks_of(rank_class.ranks);
    figures.ranks.assign(ranks.begin(), ranks.end());
    summary.classes.push_back(std::move(figures));
  }
  const run::Run run =
      record_run(outcome.schedule.graph, outcome.schedule.prices, outcome.simulation);
  fill_times(run, summary);
  const auto step = static_cast<double>(std::max<Ns>(1, summary.slow().times->step));
  const StepTimes& times = *summary.slow().times;
  return {static_cast<double>(times.busy.compute) / step,
          static_cast<double>(times.busy.exposed) / step,
          static_cast<double>(times.host_bound) / step};
}

Status fill_ranges(const RowOutcome& outcome, const std::vector<Ns>& steps,
                   RowPrediction& prediction) {
  prediction.peak_range =
      peak_range(prediction.peak.value_or(prediction.allocated), outcome.schedule.hardware);
  prediction.is_close_call = is_close_call(prediction.reserved, prediction.outside,
                                           prediction.capacity, outcome.schedule.hardware);
  const auto ranges = step_ranges(outcome.schedule, steps);
  if (!ranges) return tl::unexpected(ranges.error());
  prediction.step_range = {};
  for (const auto& [low, high] : *ranges)
    prediction.step_range = {std::max(prediction.step_range.first, low),
                             std::max(prediction.step_range.second, high)};
  return {};
}

std::vector<Ns> fill(const MeasuredRow& row, const RowOutcome& outcome, RowPrediction& prediction) {
  const bool first = row.memory_when == "first";
  std::vector<Ns> steps;
  for (const sim::ClassResult& result : outcome.simulation.classes) {
    steps.push_back(result.steady.time());
    prediction.step = std::max(prediction.step, steps.back());
    const sim::MemoryPeaks& peaks = first ? result.first.peaks : result.steady.peaks;
    prediction.allocated = std::max(prediction.allocated, peaks.allocated);
    prediction.reserved = std::max(prediction.reserved, peaks.reserved);
  }
  if (row.memory_metric == "reserved_gib")
    prediction.peak = prediction.reserved;
  else if (!row.memory_metric.empty())
    prediction.peak = prediction.allocated;
  prediction.fits = outcome.fits;
  prediction.capacity = outcome.schedule.capacity;
  prediction.outside = outcome.schedule.outside_allocator;
  prediction.shares = shares_of(outcome);
  return steps;
}

Status take_figures(const std::string& figures, const std::string& path, RowWorkload& workload) {
  const auto hardware =
      std::find_if(workload.settings.begin(), workload.settings.end(),
                   [](const Setting& setting) { return setting.key == "cluster.hardware"; });
  if (figures.empty() || hardware == workload.settings.end()) return {};
  const std::string text = fmt::format("base = {0}\nname = {0}\n{1}", hardware->value, figures);
  hardware->value = json_quote(path);
  return write_file(path, text);
}

// The place of a temporary file tells a reader nothing.
std::string reason_of(const Error& error) { return error.message; }

}  // namespace

RowPrediction predict_row(const MeasuredRow& row, const std::string& directory,
                          const std::string& figures) {
  RowPrediction prediction;
  auto workload = workload_of(row);
  if (!workload) {
    prediction.skipped = reason_of(workload.error());
    return prediction;
  }
  prediction.assumptions = workload->assumptions;
  const std::string stem = file_stem(row.id);
  const std::string path = directory + "/" + stem + ".toml";
  if (const Status taken =
          take_figures(figures, directory + "/" + stem + ".hardware.toml", *workload);
      !taken) {
    prediction.skipped = reason_of(taken.error());
    return prediction;
  }
  if (const Status written = write_file(directory + "/" + stem + ".json", workload->model);
      !written) {
    prediction.skipped = reason_of(written.error());
    return prediction;
  }
  for (const bool too_large : {false, true}) {
    if (too_large && workload->if_too_large.empty()) break;
    const std::string text = toml_of(*workload, stem + ".json", too_large);
    if (const Status written = write_file(path, text); !written) {
      prediction.skipped = reason_of(written.error());
      return prediction;
    }
    const auto outcome = simulate_file(path, workload->what_if);
    if (!outcome) {
      prediction.skipped = reason_of(outcome.error());
      return prediction;
    }
    prediction.step = prediction.allocated = prediction.reserved = 0;
    const std::vector<Ns> steps = fill(row, *outcome, prediction);
    // A fit looks at steps alone.
    if (const Status filled = figures.empty() ? fill_ranges(*outcome, steps, prediction) : Status{};
        !filled) {
      prediction.skipped = reason_of(filled.error());
      return prediction;
    }
    if (prediction.fits) break;
  }
  for (Ns* time : {&prediction.step, &prediction.step_range.first, &prediction.step_range.second})
    *time /= workload->timed_parts;
  return prediction;
}

}  // namespace foregather::tasks
