#include "core/rebuild/host_rows.h"

#include <algorithm>

#include "core/rebuild/window.h"

namespace foregather::rebuild {

HostRows::HostRows(const run::Recording& recording, run::ClassRow rank_class, Ns origin,
                   run::Run& run)
    : recording_(recording),
      first_call_(run.calls.size()),
      calls_(calls_by_correlation(recording)),
      operators_(recording),
      texts_(recording.strings.size()) {
  add(recording.calls, rank_class, origin, run);
}

void HostRows::add_ranges(run::ClassRow rank_class, Ns origin, run::Run& run) {
  add(recording_.ranges, rank_class, origin, run);
}

template <class Columns>
void HostRows::add(const Columns& rows, run::ClassRow rank_class, Ns origin, run::Run& run) {
  threads_.resize(recording_.lanes.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    run::ThreadRow& thread = threads_[rows.lane[i].row()];
    if (!thread) {
      const run::Lane& lane = recording_.lanes[rows.lane[i].row()];
      thread = run.add(run::ThreadInfo{rank_class, run.text(recording_.text(lane.process)),
                                       run.text(recording_.text(lane.thread))});
    }
    run.add(run::HostCallRecord{thread, run.text(recording_.text(rows.name[i])),
                                rows.start[i] - origin, rows.end[i] - origin});
  }
}

run::HostCallRow HostRows::call(run::CorrelationId id) const {
  if (!id || !calls_[id.row()]) return {};
  return run::HostCallRow(first_call_ + calls_[id.row()].row());
}

run::HostCallRow HostRows::launch(run::ActivityRow row) const {
  return call(recording_.activities.correlation[row.row()]);
}

void HostRows::add_collective(run::OpRow op, run::CollectiveRow row, run::Run& run) const {
  if (!row) return;
  const run::RecordedCollective& said = recording_.collectives[row.row()];
  const auto text = [&](StringId id) { return id ? run.text(recording_.text(id)) : StringId(); };
  run.add(run::CollectiveRecord{op, text(said.name), text(said.dtype), text(said.group),
                                text(said.ranks), said.in_elements, said.out_elements,
                                said.group_size, said.sequence});
}

// Operators share few texts, and these are long.
StringId HostRows::text(StringId id, run::Run& run) {
  if (!id) return {};
  StringId& known = texts_[id.row()];
  if (!known) known = run.text(recording_.text(id));
  return known;
}

void HostRows::add_kernel(run::OpRow op, run::ActivityRow row, run::Run& run) {
  const run::KnownOperator call = operators_.call(row.row());
  const std::int64_t threads = recording_.activities.threads[row.row()];
  if (!call.shapes && threads <= 0) return;
  run.add(run::KernelLaunch{op, text(call.name, run), text(call.shapes, run), text(call.types, run),
                            text(call.values, run), call.is_alone,
                            std::max<std::int64_t>(threads, 0)});
}

void HostRows::add_waits(const std::function<run::StreamRow(run::LaneRow)>& stream,
                         run::Run& run) const {
  const run::SyncColumns& rows = recording_.syncs;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows.awaited_stream[i])
      run.add(run::StreamWaitRecord{stream(rows.lane[i]), call(rows.correlation[i]),
                                    call(rows.recorded[i]),
                                    run.text(recording_.text(rows.awaited_stream[i]))});
}

}  // namespace foregather::rebuild
