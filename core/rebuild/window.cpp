#include "core/rebuild/window.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "core/run/span.h"

namespace foregather::rebuild {
namespace {

std::optional<std::int64_t> step_number(std::string_view name) {
  constexpr std::string_view kPrefix = "ProfilerStep";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(std::min(name.find_first_not_of(" \t#", kPrefix.size()), name.size()));
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc()) return std::nullopt;
  return number;
}

// No call that begins in the window takes longer than a recording may.
Status check_calls(const run::Recording& recording, const Window& window) {
  const run::CallColumns& rows = recording.calls;
  const auto length = [&](std::size_t i) { return rows.end[i] - rows.start[i]; };
  std::optional<std::size_t> longest;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows.start[i] >= window.host_begin && rows.start[i] < window.host_end &&
        (!longest || length(i) > length(*longest)))
      longest = i;
  if (!longest) return {};
  return run::check_span(recording.source, length(*longest),
                         fmt::format("in a {}", recording.text(rows.name[*longest])));
}

}  // namespace

std::map<std::int64_t, HostStep> host_steps(const run::Recording& recording) {
  std::map<std::int64_t, HostStep> steps;
  for (std::size_t i = 0; i < recording.ranges.size(); ++i)
    if (const auto number = step_number(recording.text(recording.ranges.name[i])))
      steps[*number] = {recording.ranges.start[i], recording.ranges.end[i]};
  return steps;
}

std::vector<run::CallRow> calls_by_correlation(const run::Recording& recording) {
  std::vector<run::CallRow> calls(recording.correlations);
  const run::CallColumns& rows = recording.calls;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows.correlation[i]) continue;
    run::CallRow& known = calls[rows.correlation[i].row()];
    if (!known || rows.start[i] < rows.start[known.row()]) known = run::CallRow(i);
  }
  return calls;
}

Result<Window> window_of(const run::Recording& recording, std::optional<std::int64_t> step) {
  const run::ActivityColumns& rows = recording.activities;
  Window window;
  std::vector<run::CallRow> calls;
  HostStep host;
  if (step) {
    const auto steps = host_steps(recording);
    const auto found = steps.find(*step);
    if (found == steps.end()) {
      std::vector<std::int64_t> known;
      for (const auto& [number, range] : steps) known.push_back(number);
      return fail_at(recording.source, "has no step {}, {}", *step,
                     known.empty() ? std::string("it names no steps")
                                   : fmt::format("expected one of {}", fmt::join(known, ", ")));
    }
    host = found->second;
    window.host_begin = host.begin;
    window.host_end = host.end;
    calls = calls_by_correlation(recording);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (step) {
      const run::CallRow call =
          rows.correlation[i] ? calls[rows.correlation[i].row()] : run::CallRow();
      const Ns launched = call ? recording.calls.start[call.row()] : rows.start[i];
      if (launched < host.begin || launched >= host.end) continue;
    }
    window.activities.emplace_back(i);
  }
  std::stable_sort(window.activities.begin(), window.activities.end(), [&](auto a, auto b) {
    return std::pair(rows.start[a.row()], rows.end[a.row()]) <
           std::pair(rows.start[b.row()], rows.end[b.row()]);
  });
  if (const Status sane = check_calls(recording, window); !sane)
    return tl::unexpected(sane.error());
  if (window.activities.empty()) return window;
  window.begin = window.end = rows.start[window.activities.front().row()];
  for (const run::ActivityRow row : window.activities)
    window.end = std::max(window.end, rows.end[row.row()]);
  if (const Status sane = run::check_span(recording.source, window.length()); !sane)
    return tl::unexpected(sane.error());
  return window;
}

std::vector<std::int64_t> steps_of(const run::Recording& recording) {
  std::vector<std::int64_t> numbers;
  for (const auto& [number, range] : host_steps(recording)) numbers.push_back(number);
  return numbers;
}

}  // namespace foregather::rebuild
