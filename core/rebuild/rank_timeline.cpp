#include "core/rebuild/rank_timeline.h"

#include <fmt/format.h>

#include <set>

namespace foregather::rebuild {
namespace {

// Memory, perhaps of another device (copies between two are of no kind that has a name).
bool only_moves(OpKind kind) {
  switch (kind) {
    case OpKind::copy:
    case OpKind::fill:
    case OpKind::host_to_device:
    case OpKind::device_to_host:
    case OpKind::other: return true;
    default: return false;
  }
}

}  // namespace

std::optional<std::string> warning_of_devices(const RankTimeline& rank) {
  std::set<StringId> devices;
  for (const RecordedOp& op : rank.timeline.ops)
    if (!only_moves(rank.labels.of(op).kind))
      devices.insert(rank.recording->lanes[rank.timeline.streams[op.stream].lane.row()].process);
  if (devices.size() < 2) return std::nullopt;
  return fmt::format(
      "{}: one process drives {} devices, which are taken for one: compute of one hides "
      "communication of another, and their collectives do not meet",
      rank.recording->source, devices.size());
}

}  // namespace foregather::rebuild
