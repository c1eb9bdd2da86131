#include "traces/snapshot_facts.h"

#include <algorithm>
#include <unordered_map>

namespace foregather::traces {
namespace {

Bytes wrapping_sum(Bytes a, Bytes b) {
  return static_cast<Bytes>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

Bytes negative(Bytes a) { return static_cast<Bytes>(-static_cast<std::uint64_t>(a)); }

/// A sum and the most that it was.
struct Level {
  Bytes now = 0, peak = 0;
  void add(Bytes bytes) {
    now = wrapping_sum(now, bytes);
    peak = std::max(peak, now);
  }
};

SnapshotHistory history_of(const std::vector<SnapshotEvent>& events) {
  SnapshotHistory history;
  history.events = static_cast<std::int64_t>(events.size());
  history.span_us = events.back().time_us - events.front().time_us;
  std::unordered_map<std::int64_t, Bytes> live;
  std::set<std::uint64_t> streams;
  Level active, seen, segments;
  for (const SnapshotEvent& event : events) {
    ++history.actions[static_cast<std::size_t>(event.action)];
    history.with_frames += event.stack ? 1 : 0;
    streams.insert(event.stream);
    switch (event.action) {
      case SnapshotAction::alloc:
        active.add(event.size);
        seen.add(event.size);
        live[event.address] = event.size;
        break;
      case SnapshotAction::free_completed: {
        active.add(negative(event.size));
        const auto found = live.find(event.address);
        if (found == live.end()) {
          ++history.unseen_frees;
        } else {
          seen.add(negative(found->second));
          live.erase(found);
        }
        break;
      }
      case SnapshotAction::segment_alloc:
      case SnapshotAction::segment_map: segments.add(event.size); break;
      case SnapshotAction::segment_free:
      case SnapshotAction::segment_unmap: segments.add(negative(event.size)); break;
      default: break;
    }
  }
  history.streams = static_cast<std::int64_t>(streams.size());
  history.before = negative(active.now);
  history.peak = active.peak;
  history.peak_seen = seen.peak;
  history.peak_segments = segments.peak;
  return history;
}

}  // namespace

SnapshotFacts snapshot_facts(const Snapshot& snapshot) {
  SnapshotFacts facts;
  std::vector<Bytes> active_of(snapshot.traces.size(), 0);
  for (const SnapshotSegment& segment : snapshot.segments) {
    facts.devices.insert(segment.device);
    facts.streams.insert(segment.stream);
    facts.is_expandable |= segment.is_expandable;
    facts.reserved = wrapping_sum(facts.reserved, segment.total);
    facts.blocks += segment.blocks.size();
    for (const SnapshotBlock& block : segment.blocks) {
      ++facts.states[static_cast<std::size_t>(block.state)];
      if (block.state == SnapshotState::inactive) continue;
      facts.active = wrapping_sum(facts.active, block.size);
      if (block.state == SnapshotState::allocated)
        facts.allocated = wrapping_sum(facts.allocated, block.size);
      const auto device = static_cast<std::size_t>(segment.device);
      if (device < active_of.size())
        active_of[device] = wrapping_sum(active_of[device], block.size);
    }
  }
  for (std::size_t device = 0; device < snapshot.traces.size(); ++device) {
    if (snapshot.traces[device].empty()) continue;
    SnapshotHistory& history = facts.histories.emplace_back(history_of(snapshot.traces[device]));
    history.device = device;
    history.at_end = active_of[device];
    history.before = wrapping_sum(history.before, history.at_end);
    history.peak = wrapping_sum(history.peak, history.before);
  }
  return facts;
}

std::string_view name_of(SnapshotAction action) {
  switch (action) {
    case SnapshotAction::alloc: return "alloc";
    case SnapshotAction::free_requested: return "free_requested";
    case SnapshotAction::free_completed: return "free_completed";
    case SnapshotAction::segment_alloc: return "segment_alloc";
    case SnapshotAction::segment_free: return "segment_free";
    case SnapshotAction::segment_map: return "segment_map";
    case SnapshotAction::segment_unmap: return "segment_unmap";
    case SnapshotAction::oom: return "oom";
    case SnapshotAction::other: break;
  }
  return "other";
}

std::string_view name_of(SnapshotState state) {
  switch (state) {
    case SnapshotState::allocated: return "active_allocated";
    case SnapshotState::pending_free: return "active_pending_free";
    case SnapshotState::inactive: break;
  }
  return "inactive";
}

}  // namespace foregather::traces
