#include "core/rebuild/rank_timeline.h"

#include <fmt/format.h>

#include <set>

namespace foregather::rebuild {

std::optional<std::string> warning_of_devices(const RankTimeline& rank) {
  std::set<StringId> devices;  // that it computes on, beyond copies between them
  for (const RecordedOp& op : rank.timeline.ops) {
    const OpKind kind = rank.labels.of(op).kind;
    if (is_collective(kind) || kind < OpKind::copy || kind == OpKind::fused)
      devices.insert(rank.recording->lanes[rank.timeline.streams[op.stream].lane.row()].process);
  }
  if (devices.size() < 2) return std::nullopt;
  return fmt::format(
      "{}: one process drives {} devices, which are taken for one: compute of one hides "
      "communication of another, and their collectives do not meet",
      rank.recording->source, devices.size());
}

}  // namespace foregather::rebuild
