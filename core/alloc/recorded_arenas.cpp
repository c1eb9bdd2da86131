#include "core/alloc/recorded_arenas.h"

#include <algorithm>

#include "core/alloc/rounding.h"

namespace foregather::alloc {

RecordedArenas::RecordedArenas(const Recording& recording) {
  const Bytes granule = recording.config.large_segment_size;
  const auto add = [&](Address address, Bytes size, StreamId stream) {
    ranges_.push_back({address, address + size, stream, size % granule == 0, std::nullopt});
  };
  for (const SegmentLayout& segment : recording.at_end)
    if (segment.expandable) add(segment.address, segment.size, segment.stream);
  for (const RecordedEvent& event : recording.events)
    if (event.action == RecordedAction::segment_map ||
        event.action == RecordedAction::segment_unmap)
      add(event.address, event.size, event.stream);
  join();
  if (!empty()) take_kinds(recording);
  guess_kinds();
}

void RecordedArenas::join() {
  std::sort(ranges_.begin(), ranges_.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::vector<Range> joined;
  for (const Range& range : ranges_) {
    if (joined.empty() || range.begin > joined.back().end) {
      joined.push_back(range);
      continue;
    }
    joined.back().end = std::max(joined.back().end, range.end);
    joined.back().in_granules &= range.in_granules;
  }
  ranges_ = std::move(joined);
}

const RecordedArenas::Range* RecordedArenas::find(Address address) const {
  const auto after =
      std::upper_bound(ranges_.begin(), ranges_.end(), address,
                       [](Address wanted, const Range& range) { return wanted < range.begin; });
  if (after == ranges_.begin()) return nullptr;
  return address < (after - 1)->end ? &*(after - 1) : nullptr;
}

RecordedArenas::Range* RecordedArenas::find(Address address) {
  return const_cast<Range*>(std::as_const(*this).find(address));
}

void RecordedArenas::take_kinds(const Recording& recording) {
  for (const SegmentLayout& segment : recording.at_end)
    if (segment.expandable) find(segment.address)->kind = segment.kind;
  const Rounding rounding(recording.config);
  for (const RecordedEvent& event : recording.events) {
    if (event.action != RecordedAction::alloc || event.size <= 0 || event.size > kMaxRequest)
      continue;
    Range* const range = find(event.address);
    if (range != nullptr && !range->kind) range->kind = pool_kind(rounding.block_size(event.size));
  }
}

void RecordedArenas::guess_kinds() {
  for (auto range = ranges_.begin(); range != ranges_.end(); ++range) {
    for (auto below = range; !range->kind && below != ranges_.begin();) {
      --below;
      if (below->stream == range->stream) range->kind = below->kind;
    }
    if (!range->kind) range->kind = range->in_granules ? PoolKind::large : PoolKind::small;
  }
}

std::optional<PoolKind> RecordedArenas::kind_at(Address address) const {
  const Range* const range = find(address);
  return range == nullptr ? std::nullopt : range->kind;
}

}  // namespace foregather::alloc
