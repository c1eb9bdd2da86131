#include "core/alloc/recorded_arenas.h"

#include <algorithm>
#include <map>

#include "core/alloc/rounding.h"

namespace foregather::alloc {
namespace {

bool is_mapping(RecordedAction action) {
  return action == RecordedAction::segment_map || action == RecordedAction::segment_unmap;
}

/// What is known of addresses: the latest word counts.
class Evidence {
 public:
  void add(Address address, PoolKind kind) { kinds_.insert_or_assign(address, kind); }
  std::optional<PoolKind> in(Address begin, Address end) const {
    const auto found = kinds_.lower_bound(begin);
    if (found == kinds_.end() || found->first >= end) return std::nullopt;
    return found->second;
  }
  void forget(Address begin, Address end) {
    kinds_.erase(kinds_.lower_bound(begin), kinds_.lower_bound(end));
  }

 private:
  std::map<Address, PoolKind> kinds_;
};

}  // namespace

RecordedArenas::RecordedArenas(const Recording& recording) {
  const bool has_mappings =
      std::any_of(recording.events.begin(), recording.events.end(),
                  [](const RecordedEvent& event) { return is_mapping(event.action); });
  if (!has_mappings) return;
  kinds_.resize(recording.events.size());
  find_in_order(recording);
  guess(recording);
}

void RecordedArenas::find_in_order(const Recording& recording) {
  const Rounding rounding(recording.config);
  const auto kind_of_size = [&](Bytes size) {
    return pool_kind(rounding.block_size(std::clamp<Bytes>(size, 1, kMaxRequest)));
  };
  const auto& events = recording.events;
  // Of the malloc behind each event, from the back.
  std::optional<PoolKind> wanted;
  for (std::size_t at = events.size(); at-- > 0;) {
    const RecordedEvent& event = events[at];
    if (event.action == RecordedAction::alloc || event.action == RecordedAction::oom)
      wanted = kind_of_size(event.size);
    else if (!is_release(event.action) && !is_growth(event.action))
      wanted.reset();
    if (event.action == RecordedAction::segment_map) kinds_[at] = wanted;
  }
  const Bytes granule = recording.config.large_segment_size;
  Evidence evidence;
  for (std::size_t at = 0; at < events.size(); ++at) {
    const RecordedEvent& event = events[at];
    if (!is_possible(event)) continue;
    const Address end = event.address + event.size;
    switch (event.action) {
      case RecordedAction::alloc:
      case RecordedAction::free_completed:
        evidence.add(event.address, kind_of_size(event.size));
        break;
      case RecordedAction::segment_map:
        if (kinds_[at]) evidence.add(event.address, *kinds_[at]);
        break;
      case RecordedAction::segment_unmap:
        kinds_[at] = evidence.in(event.address, end);
        if (event.size % granule != 0) kinds_[at] = PoolKind::small;
        evidence.forget(event.address, end);
        break;
      default: break;
    }
  }
}

// The large pool is released before the small one.
void RecordedArenas::guess(const Recording& recording) {
  const RecordedEvent* before = nullptr;
  PoolKind kind_before = PoolKind::large;
  for (std::size_t at = 0; at < recording.events.size(); ++at) {
    const RecordedEvent& event = recording.events[at];
    const bool in_run = before != nullptr && is_release(before->action);
    before = &event;
    if (!in_run) kind_before = PoolKind::large;
    if (is_mapping(event.action) && !kinds_[at]) kinds_[at] = kind_before;
    if (event.action == RecordedAction::segment_unmap) kind_before = kind(at);
    if (event.action == RecordedAction::segment_free)
      kind_before = event.size == kSmallBuffer ? PoolKind::small : PoolKind::large;
  }
}

}  // namespace foregather::alloc
