#include "core/compare/recorded_timeline.h"

#include <algorithm>
#include <set>
#include <vector>

#include "core/compare/intervals.h"
#include "core/run/work_sample.h"

namespace foregather::compare {
namespace {

constexpr Ns kRounding = 1;

void extend(Ns& first, Ns& last, Interval interval, bool is_first) {
  first = is_first ? interval.begin : std::min(first, interval.begin);
  last = is_first ? interval.end : std::max(last, interval.end);
}

std::int64_t overlapping_pairs(std::vector<Interval> lane) {
  std::sort(lane.begin(), lane.end(), [](const Interval& a, const Interval& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::int64_t pairs = 0;
  for (std::size_t i = 1; i < lane.size(); ++i)
    pairs += lane[i].begin < lane[i - 1].end - kRounding ? 1 : 0;
  return pairs;
}

void count_lane_kinds(const run::Recording& recording, TimelineFigures& figures) {
  for (const run::LaneLabel& label : recording.labels) {
    if (!label.thread) continue;
    std::string_view kind = recording.text(label.thread);
    if (const auto comma = kind.rfind(", "); comma != std::string_view::npos)
      kind.remove_prefix(comma + 2);
    ++figures.lane_kinds[kind];
  }
}

}  // namespace

TimelineFigures timeline_figures(const run::Recording& recording) {
  TimelineFigures figures;
  const run::ActivityColumns& rows = recording.activities;
  std::vector<std::vector<Interval>> lanes(recording.lanes.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Interval interval{rows.start[i], rows.end[i]};
    extend(figures.first_start, figures.last_end, interval, i == 0);
    lanes[rows.lane[i].row()].push_back(interval);
    TimelineUse& use = figures.names[recording.text(rows.name[i])];
    ++use.count;
    use.time = run::sum_of_times(use.time, interval.end - interval.begin);
    if (const auto number = recording.timeline.step[i]) {
      TimelineStep& step = figures.steps[*number];
      extend(step.first_start, step.last_end, interval, step.activities == 0);
      ++step.activities;
    }
  }
  std::set<StringId> processes;
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    if (lanes[lane].empty()) continue;
    processes.insert(recording.lanes[lane].process);
    ++figures.lanes;
    figures.overlapping_pairs += overlapping_pairs(std::move(lanes[lane]));
  }
  figures.processes = static_cast<std::int64_t>(processes.size());
  count_lane_kinds(recording, figures);
  return figures;
}

}  // namespace foregather::compare
