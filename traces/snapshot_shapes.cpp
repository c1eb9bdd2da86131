#include "traces/snapshot_shapes.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

namespace foregather::traces {
namespace {

using Kind = PickleValue::Kind;

constexpr std::array<std::string_view, static_cast<std::size_t>(SnapshotKey::count)> kKeys{
    "action",          "addr",          "size",      "stream", "time_us",    "frames",
    "device_free",     "name",          "filename",  "line",   "address",    "requested_size",
    "state",           "history",       "real_size", "device", "total_size", "segment_type",
    "segment_pool_id", "is_expandable", "blocks"};

struct ActionName {
  std::string_view name;
  SnapshotAction action;
};
constexpr std::array kActions{
    ActionName{"alloc", SnapshotAction::alloc},
    ActionName{"free_requested", SnapshotAction::free_requested},
    ActionName{"free_completed", SnapshotAction::free_completed},
    ActionName{"segment_alloc", SnapshotAction::segment_alloc},
    ActionName{"segment_free", SnapshotAction::segment_free},
    ActionName{"segment_map", SnapshotAction::segment_map},
    ActionName{"segment_unmap", SnapshotAction::segment_unmap},
    ActionName{"oom", SnapshotAction::oom},
};

// PyTorch's own documentation also names active_awaiting_free, which no version writes.
bool read_state(std::string_view text, SnapshotState& state) {
  if (text == "active_allocated")
    state = SnapshotState::allocated;
  else if (text == "active_pending_free" || text == "active_awaiting_free")
    state = SnapshotState::pending_free;
  else if (text == "inactive")
    state = SnapshotState::inactive;
  else
    return false;
  return true;
}

}  // namespace

SnapshotShapes::SnapshotShapes(PickleHeap& heap, Snapshot& snapshot)
    : heap_(heap), snapshot_(snapshot) {
  for (const std::string_view key : kKeys) heap.strings.intern(key);
}

Result<std::optional<PickleValue>> SnapshotShapes::dict(std::span<const PickleValue> items) {
  fields_.fill(nullptr);
  for (std::size_t i = 0; i + 1 < items.size(); i += 2)
    if (items[i].row < fields_.size()) fields_[items[i].row] = &items[i + 1];
  if (has(SnapshotKey::action)) return read_event();
  if (has(SnapshotKey::line)) return read_frame();
  if (has(SnapshotKey::state)) return read_block();
  if (has(SnapshotKey::total_size)) return read_segment();
  return std::nullopt;
}

// A list of frames is a stack; an empty list may be anything.
Result<std::optional<PickleValue>> SnapshotShapes::sequence(std::span<const PickleValue> items) {
  if (items.empty() || !items.front().is_record(frame)) return std::nullopt;
  scratch_.clear();
  for (const PickleValue& item : items) {
    if (!item.is_record(frame)) return std::nullopt;
    scratch_.push_back(FrameId(item.row));
  }
  return PickleValue::of_record(stack, snapshot_.stacks.add(scratch_).row());
}

bool SnapshotShapes::integer(SnapshotKey key, std::int64_t& out) const {
  const PickleValue* const value = at(key);
  if (value == nullptr || !value->is(Kind::integer)) return false;
  out = value->integer;
  return true;
}

bool SnapshotShapes::handle(SnapshotKey key, std::uint64_t& out) const {
  const PickleValue* const value = at(key);
  if (value == nullptr || (!value->is(Kind::integer) && !value->is(Kind::unsigned_integer)))
    return false;
  out = static_cast<std::uint64_t>(value->integer);
  return true;
}

bool SnapshotShapes::flag(SnapshotKey key) const {
  const PickleValue* const value = at(key);
  return value != nullptr && (value->is(Kind::boolean) || value->is(Kind::integer)) &&
         value->integer != 0;
}

StackId SnapshotShapes::stack_of(const PickleValue* frames) const {
  return frames != nullptr && frames->is_record(stack) ? StackId(frames->row) : StackId();
}

SnapshotShapes::Record SnapshotShapes::read_frame() {
  const PickleValue* const name = at(SnapshotKey::name);
  const PickleValue* const file = at(SnapshotKey::filename);
  std::int64_t line = 0;
  if (name == nullptr || !name->is(Kind::text) || file == nullptr || !file->is(Kind::text) ||
      !integer(SnapshotKey::line, line))
    return std::nullopt;
  const FrameId id = snapshot_.stacks.add(Frame{name->text(), file->text(), line});
  return PickleValue::of_record(frame, id.row());
}

bool SnapshotShapes::read_action(SnapshotAction& action) const {
  const PickleValue& value = *at(SnapshotKey::action);
  if (!value.is(Kind::text)) return false;
  const std::string_view text = heap_.strings.text(value.text());
  action = SnapshotAction::other;
  for (const ActionName& known : kActions)
    if (known.name == text) action = known.action;
  if (action == SnapshotAction::other && text != "snapshot") ++snapshot_.unknown_actions;
  return true;
}

SnapshotShapes::Record SnapshotShapes::read_event() {
  SnapshotEvent row;
  if (!read_action(row.action)) return std::nullopt;
  const bool has_address =
      integer(SnapshotKey::addr, row.address) || integer(SnapshotKey::device_free, row.address);
  const bool has_size = integer(SnapshotKey::size, row.size);
  const bool has_stream = handle(SnapshotKey::stream, row.stream);
  if (row.action != SnapshotAction::other && !(has_address && has_size && has_stream))
    return std::nullopt;
  if (integer(SnapshotKey::time_us, row.time_us)) snapshot_.has_times = true;
  constexpr std::int64_t kLatest = kLatestTime / kMicrosecond;
  const std::int64_t told = std::exchange(row.time_us, std::clamp(row.time_us, -kLatest, kLatest));
  if (row.time_us != told) ++snapshot_.damaged_times;
  row.stack = stack_of(at(SnapshotKey::frames));
  events.push_back(row);
  return PickleValue::of_record(event, static_cast<std::uint32_t>(events.size() - 1));
}

const PickleValue* SnapshotShapes::item(std::span<const PickleValue> dict, SnapshotKey key) const {
  for (std::size_t i = 0; i + 1 < dict.size(); i += 2)
    if (dict[i].row == static_cast<std::uint32_t>(key)) return &dict[i + 1];
  return nullptr;
}

// Old files have, for each allocation that shares the block, its requested size and frames.
void SnapshotShapes::read_history(SnapshotBlock& row) const {
  const PickleValue* const list = at(SnapshotKey::history);
  if (list == nullptr || !list->is(Kind::container)) return;
  const auto entries = heap_.items(list->container());
  if (entries.empty() || !entries.front().is(Kind::container) ||
      heap_.kind(entries.front().container()) != PickleContainer::dict)
    return;
  const auto entry = heap_.items(entries.front().container());
  const PickleValue* const real = item(entry, SnapshotKey::real_size);
  if (real != nullptr && real->is(Kind::integer)) row.requested = real->integer;
  row.stack = stack_of(item(entry, SnapshotKey::frames));
}

SnapshotShapes::Record SnapshotShapes::read_block() {
  SnapshotBlock row;
  const PickleValue& state = *at(SnapshotKey::state);
  if (!state.is(Kind::text) || !read_state(heap_.strings.text(state.text()), row.state) ||
      !integer(SnapshotKey::size, row.size))
    return std::nullopt;
  row.address = std::numeric_limits<std::int64_t>::min();  // placed by its segment if absent
  integer(SnapshotKey::address, row.address);
  row.requested = row.size;
  row.stack = stack_of(at(SnapshotKey::frames));
  if (!integer(SnapshotKey::requested_size, row.requested)) read_history(row);
  blocks_.push_back(row);
  return PickleValue::of_record(block, static_cast<std::uint32_t>(blocks_.size() - 1));
}

// Old files leave the addresses to the reader.
bool SnapshotShapes::place_blocks(SnapshotSegment& row) {
  const PickleValue* const list = at(SnapshotKey::blocks);
  if (list == nullptr || !list->is(Kind::container)) return false;
  std::int64_t address = row.address;
  placed_.resize(blocks_.size());
  for (const PickleValue& item : heap_.items(list->container())) {
    if (!item.is_record(block) || placed_[item.row]) return false;  // each is of one segment
    placed_[item.row] = true;
    SnapshotBlock placed = blocks_[item.row];
    if (placed.address == std::numeric_limits<std::int64_t>::min()) placed.address = address;
    if (placed.size < 0 || __builtin_add_overflow(placed.address, placed.size, &address))
      return false;
    row.blocks.push_back(placed);
  }
  return true;
}

SnapshotShapes::Record SnapshotShapes::read_segment() {
  SnapshotSegment row;
  const PickleValue* const type = at(SnapshotKey::segment_type);
  if (!integer(SnapshotKey::address, row.address) || !integer(SnapshotKey::total_size, row.total) ||
      !handle(SnapshotKey::stream, row.stream) || type == nullptr || !type->is(Kind::text) ||
      !place_blocks(row))
    return std::nullopt;
  integer(SnapshotKey::device, row.device);
  row.is_large = heap_.strings.text(type->text()) != "small";
  row.is_expandable = flag(SnapshotKey::is_expandable);
  const PickleValue* const pool = at(SnapshotKey::segment_pool_id);
  if (pool != nullptr && pool->is(Kind::container))
    for (const PickleValue& part : heap_.items(pool->container()))
      row.in_private_pool |= part.is(Kind::integer) && part.integer != 0;
  segments.push_back(std::move(row));
  return PickleValue::of_record(segment, static_cast<std::uint32_t>(segments.size() - 1));
}

}  // namespace foregather::traces
