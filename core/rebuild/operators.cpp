#include "core/rebuild/operators.h"

#include <algorithm>
#include <tuple>

#include "core/rebuild/window.h"

namespace foregather::rebuild {

using run::RangeRow;

Operators::Operators(const run::Recording& recording)
    : recording_(recording), of_(recording.activities.size()), launched_(recording.ranges.size()) {
  const std::vector<RangeRow> ranges = speaking_ranges();
  std::size_t next = 0;
  std::vector<RangeRow> open;
  run::LaneRow lane;
  for (const Launch& launch : launches_by_time()) {
    if (launch.lane != lane) {
      lane = launch.lane;
      open.clear();
      while (next < ranges.size() && lane_of(ranges[next]) < lane) ++next;
    }
    for (; next < ranges.size() && lane_of(ranges[next]) == lane &&
           start_of(ranges[next]) <= launch.time;
         ++next) {
      close(open, start_of(ranges[next]));
      open.push_back(ranges[next]);
    }
    close(open, launch.time);
    if (!open.empty()) of_[launch.activity] = open.back();
  }
  add_external(ranges);
  for (const RangeRow range : of_)
    if (range) ++launched_[range.row()];
}

run::KnownOperator Operators::call(std::size_t activity) const {
  if (!recording_.known.operators.empty()) return recording_.known.operators[activity];
  const RangeRow range = of_[activity];
  if (!range || !recording_.ranges.shapes[range.row()]) return {};
  const run::RangeColumns& rows = recording_.ranges;
  return {rows.name[range.row()], rows.shapes[range.row()], rows.types[range.row()],
          rows.values[range.row()], launched_[range.row()] == 1};
}

void Operators::close(std::vector<RangeRow>& open, Ns time) const {
  while (!open.empty() && end_of(open.back()) <= time) open.pop_back();
}

std::vector<RangeRow> Operators::speaking_ranges() const {
  const run::RangeColumns& rows = recording_.ranges;
  std::vector<RangeRow> ranges;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows.kind[i] == run::RangeKind::op && (rows.shapes[i] || rows.collective[i]))
      ranges.emplace_back(i);
  std::sort(ranges.begin(), ranges.end(), [&](RangeRow a, RangeRow b) {
    return std::tuple(lane_of(a), start_of(a), -end_of(a), a.row()) <
           std::tuple(lane_of(b), start_of(b), -end_of(b), b.row());
  });
  return ranges;
}

std::vector<Operators::Launch> Operators::launches_by_time() const {
  const std::vector<run::CallRow> calls = calls_by_correlation(recording_);
  std::vector<Launch> launches;
  for (std::size_t i = 0; i < of_.size(); ++i) {
    const run::CorrelationId id = recording_.activities.correlation[i];
    const run::CallRow call = id && id.row() < calls.size() ? calls[id.row()] : run::CallRow();
    if (call)
      launches.push_back(
          {recording_.calls.lane[call.row()], recording_.calls.start[call.row()], i});
  }
  std::sort(launches.begin(), launches.end(), [](const Launch& a, const Launch& b) {
    return std::tuple(a.lane, a.time, a.activity) < std::tuple(b.lane, b.time, b.activity);
  });
  return launches;
}

// Where the launch is not recorded, the tool may still say whose the work is.
void Operators::add_external(const std::vector<RangeRow>& ranges) {
  std::vector<RangeRow> by_external(recording_.externals);
  for (const RangeRow range : ranges)
    if (const run::ExternalId id = recording_.ranges.external[range.row()]; id)
      by_external[id.row()] = range;
  for (std::size_t i = 0; i < of_.size(); ++i)
    if (const run::ExternalId id = recording_.activities.external[i]; !of_[i] && id)
      of_[i] = by_external[id.row()];
}

}  // namespace foregather::rebuild
