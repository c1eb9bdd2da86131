#include "core/rebuild/labels.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/rebuild/host_collectives.h"
#include "core/run/kernel_names.h"

namespace foregather::rebuild {
namespace {

constexpr std::array<std::pair<std::string_view, int>, 12> kSizes{{
    {"Float", 4},
    {"BFloat16", 2},
    {"Half", 2},
    {"Double", 8},
    {"Long", 8},
    {"Int", 4},
    {"Short", 2},
    {"Byte", 1},
    {"Char", 1},
    {"Bool", 1},
    {"Float8_e4m3fn", 1},
    {"Float8_e5m2", 1},
}};

}  // namespace

Labels::Labels(const run::Recording& recording, const Timeline& timeline)
    : recording_(recording), labels_(timeline.calls.size()) {
  for (const RecordedOp& op : timeline.ops) {
    const std::size_t row = op.activity.row(), kind = kind_row(row);
    kinds_.resize(std::max(kinds_.size(), kind + 1));
    if (!kinds_[kind])
      kinds_[kind] = run::op_kind(recording.activities.kind[row],
                                  recording.text(recording.activities.name[row]));
  }
  std::vector<std::vector<std::uint32_t>> ranges = ranges_by_lane(recording);
  for (const RecordedThread& thread : timeline.threads) {
    RangeWalk walk(recording, std::move(ranges[thread.lane.row()]));
    for (const std::uint32_t c : thread.calls)
      labels_[c] = walk.at(recording.calls.start[timeline.calls[c].row.row()]);
  }
}

std::size_t Labels::kind_row(std::size_t activity) const {
  constexpr std::size_t kKinds = 3;
  return recording_.activities.name[activity].row() * kKinds +
         static_cast<std::size_t>(recording_.activities.kind[activity]);
}

OpLabel Labels::of(const RecordedOp& op) const {
  const std::size_t row = op.activity.row();
  const run::KnownOps& known = recording_.known;
  if (!known.kind.empty())
    return {known.kind[row], known.phase[row], recording_.text(known.scope[row])};
  const RangeLabel label = op.has_launch ? labels_[op.call] : RangeLabel();
  return {kind_of(op), label.phase, label.scope};
}

// An all-to-all is made of sends and receives, and a generic kernel does not say what it does:
// there the recording's own word counts.
OpKind Labels::kind_of(const RecordedOp& op) const {
  const OpKind kind = *kinds_[kind_row(op.activity.row())];
  if (kind != OpKind::send_recv) return kind;
  const run::CollectiveRow own = recording_.activities.collective[op.activity.row()];
  const run::CollectiveRow said = own || !op.has_launch ? own : labels_[op.call].called;
  if (!said) return kind;
  const auto called = collective_called(recording_.text(recording_.collectives[said.row()].name));
  return called && is_collective(*called) ? *called : kind;
}

run::CollectiveRow Labels::collective(const RecordedOp& op) const {
  const run::CollectiveRow own = recording_.activities.collective[op.activity.row()];
  return own || !op.has_launch ? own : labels_[op.call].collective;
}

std::optional<Bytes> element_size(std::string_view dtype) {
  const auto* const size = std::find_if(kSizes.begin(), kSizes.end(),
                                        [&](const auto& row) { return row.first == dtype; });
  return size == kSizes.end() ? std::nullopt : std::optional<Bytes>(size->second);
}

Bytes message_bytes(const run::Recording& recording, const run::RecordedCollective& collective) {
  constexpr std::int64_t kMost = std::int64_t{1} << 50;
  return element_size(recording.text(collective.dtype)).value_or(0) *
         std::clamp<std::int64_t>(std::max(collective.in_elements, collective.out_elements), 0,
                                  kMost);
}

}  // namespace foregather::rebuild
