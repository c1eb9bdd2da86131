// What a program's allocator was seen to do on one device.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/alloc/config.h"
#include "core/alloc/ids.h"
#include "core/alloc/layout.h"

namespace foregather::alloc {

/// The entries of a memory snapshot's history, under PyTorch's names.
enum class RecordedAction : std::uint8_t {
  alloc,
  free_requested,
  free_completed,
  segment_alloc,
  segment_free,
  segment_map,
  segment_unmap,
  oom,
  other,  ///< no effect on memory
};

/// As the snapshot has it.
constexpr std::string_view name(RecordedAction action) {
  constexpr std::array<std::string_view, 9> kNames{
      "alloc",        "free_requested", "free_completed", "segment_alloc",
      "segment_free", "segment_map",    "segment_unmap",  "oom",
      "other"};
  return kNames[static_cast<std::size_t>(action)];
}

struct RecordedEvent {
  Address address = 0;  ///< of an oom: bytes that the device had free
  Bytes size = 0;       ///< as requested; of segment_*: of the segment or the mapped range
  StreamId stream;
  RecordedAction action = RecordedAction::other;
  bool in_empty_cache = false;  ///< its stack has a frame named empty_cache
};

constexpr bool is_release(RecordedAction action) {
  return action == RecordedAction::segment_free || action == RecordedAction::segment_unmap;
}

constexpr bool is_growth(RecordedAction action) {
  return action == RecordedAction::segment_alloc || action == RecordedAction::segment_map;
}

/// Its address and size can be those of a device. An oom and other events always can.
constexpr bool is_possible(const RecordedEvent& event) {
  if (event.action == RecordedAction::oom || event.action == RecordedAction::other) return true;
  return event.address >= 0 && event.size >= 0 && event.size < FreeIndex::kSizeLimit &&
         event.address < FreeIndex::kAddressLimit - event.size;
}

/// A window of events in host order, and the state after the last of them.
struct Recording {
  std::vector<RecordedEvent> events;
  /// By address; an expandable segment has one entry for each mapped range, without unmapped parts.
  Layout at_end;
  /// Handles of the streams, by StreamId.
  std::vector<std::uint64_t> streams;
  AllocConfig config;
};

}  // namespace foregather::alloc
