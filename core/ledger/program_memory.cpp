#include "core/ledger/program_memory.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace foregather::ledger {

ProgramMemory::ProgramMemory(const Graph& graph, const Program& program,
                             const alloc::AllocConfig& config, alloc::DeviceMemory& memory,
                             alloc::EventClock& clock, bool record)
    : graph_(graph),
      storages_(program.storages),
      allocator_(config, memory, clock),
      record_(record),
      slots_(program.storages.count) {
  for (std::uint32_t i = 0; i < storages_.count; ++i) {
    const Storage& storage = graph.storages[storages_.first + i];
    slots_[i].bytes = storage.bytes;
    slots_[i].on_host = storage.on_host;
    slots_[i].cause = storage.cause;
  }
  for (const Tensor& tensor : graph.tensors)
    if (storages_.contains(tensor.storage.row()))
      ++slots_[tensor.storage.row() - storages_.first].tensors;
  allocator_.keep_usage_only();
  if (record) allocator_.set_sink(this);
}

void ProgramMemory::segment(const alloc::SegmentEvent& event) {
  constexpr std::array kKinds{SegmentChange::Kind::allocated, SegmentChange::Kind::released,
                              SegmentChange::Kind::mapped, SegmentChange::Kind::unmapped};
  const SegmentChange::Kind kind = kKinds[static_cast<std::size_t>(event.action)];
  step_.segments.push_back(
      {kind, event.kind == alloc::PoolKind::large,
       kind == SegmentChange::Kind::mapped || kind == SegmentChange::Kind::unmapped,
       StreamId(event.stream.row()), now_, static_cast<std::uint64_t>(event.address), event.size});
}

// An expandable segment as its mapped ranges.
void ProgramMemory::add_held_segments(Ns now) {
  for (const alloc::SegmentLayout& segment : allocator_.layout()) {
    bool is_open = false;
    for (const alloc::BlockLayout& block : segment.blocks) {
      const bool is_mapped = block.state != alloc::BlockState::unmapped;
      if (is_mapped && !is_open)
        step_.segments.push_back({SegmentChange::Kind::held, segment.kind == alloc::PoolKind::large,
                                  segment.expandable, StreamId(segment.stream.row()), now,
                                  static_cast<std::uint64_t>(block.address), 0});
      if (is_mapped) step_.segments.back().bytes += block.size;
      is_open = is_mapped;
    }
  }
}

void ProgramMemory::bind_on_host(Slot& slot) {
  slot.bound = true;
  slot.binding = kNoBinding;
  cut_ = {};
}

void ProgramMemory::note_calls() {
  calls_ = &allocator_.last_calls();
  if (calls_->retried || calls_->synchronized || calls_->event_queries != 0) timeless_ = false;
  if (calls_->retried) ++step_.peaks.retries;
}

void ProgramMemory::note_alloc(std::uint32_t storage, Slot& slot, Ns now) {
  const Place place = this->place(storage);
  slot.binding = static_cast<std::uint32_t>(step_.bindings.size());
  step_.bindings.push_back({StorageId(storage), place.bytes,
                            static_cast<std::uint64_t>(place.address), now, 0, 0, false, true});
  has_unnamed_ = true;
  note(now);
}

void ProgramMemory::note_free(const Slot& slot, Ns now) {
  if (slot.binding == kNoBinding) return;
  step_.bindings[slot.binding].freed = now;
  step_.bindings[slot.binding].still_bound = false;
  note(now);
}

void ProgramMemory::release(std::uint32_t tensor, Ns now) {
  const std::uint32_t storage = graph_.tensors[tensor].storage.row();
  calls_ = nullptr;
  Slot& slot = slots_[storage - storages_.first];
  if (++slot.released == slot.tensors) free(storage, now);
}

void ProgramMemory::record_stream(std::uint32_t storage, StreamId stream) {
  const Slot& slot = slots_[storage - storages_.first];
  if (slot.block) allocator_.record_stream(slot.block, alloc::StreamId(stream.row()));
}

void ProgramMemory::empty_cache(Ns now) {
  now_ = now;
  allocator_.empty_cache();
  calls_ = &allocator_.last_calls();
  if (calls_->event_syncs != 0) timeless_ = false;
  if (record_) note(now);
}

ProgramMemory::Place ProgramMemory::place(std::uint32_t storage) const {
  const Slot& slot = slots_[storage - storages_.first];
  if (!slot.block) return {};
  return {allocator_.address(slot.block), allocator_.block_size(slot.block)};
}

std::vector<std::pair<std::uint32_t, ProgramMemory::Place>> ProgramMemory::places() const {
  std::vector<std::pair<std::uint32_t, Place>> places;
  places.reserve(slots_.size());
  std::uint32_t row = storages_.first;
  for (const Slot& slot : slots_) {
    if (slot.block)
      places.push_back({row, {allocator_.address(slot.block), allocator_.block_size(slot.block)}});
    ++row;
  }
  return places;
}

void ProgramMemory::keep_peak() {
  step_.peaks.by_cause = by_cause_;
  at_peak_ = false;
}

void ProgramMemory::note(Ns now) {
  const alloc::Usage usage = allocator_.usage();
  step_.points.push_back({now, usage.requested, usage.allocated, usage.active, usage.reserved});
}

void ProgramMemory::begin_step(Ns now) {
  step_ = {};
  allocator_.reset_peak_stats();
  step_.peaks.allocated = allocated_;
  at_peak_ = peak_unnamed_ = has_unnamed_ = true;
  first_unnamed_ = 0;
  if (!record_) return;
  add_held_segments(now);
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (!slot.bound || slot.binding == kNoBinding) continue;
    slot.binding = static_cast<std::uint32_t>(step_.bindings.size());
    const Bytes bytes = slot.block ? allocator_.block_size(slot.block) : 0;
    const alloc::Address address = slot.block ? allocator_.address(slot.block) : 0;
    step_.bindings.push_back({StorageId(storages_.first + i), bytes,
                              static_cast<std::uint64_t>(address), now, 0, 0, true, true});
  }
  note(now);
}

void ProgramMemory::name_op(std::uint32_t op_row) {
  if (peak_unnamed_) step_.peaks.at = OpId(op_row);
  for (std::size_t row = first_unnamed_; row < step_.bindings.size(); ++row)
    step_.bindings[row].before_op = op_row;
  first_unnamed_ = static_cast<std::uint32_t>(step_.bindings.size());
  peak_unnamed_ = has_unnamed_ = false;
}

MemoryStep ProgramMemory::end_step(Ns now) {
  for (Binding& binding : step_.bindings)
    if (binding.still_bound) binding.freed = now;
  if (at_peak_) keep_peak();
  const alloc::Usage& peak = allocator_.peak();
  step_.peaks.requested = peak.requested;
  step_.peaks.allocated = peak.allocated;
  step_.peaks.active = peak.active;
  step_.peaks.reserved = peak.reserved;
  return std::move(step_);
}

}  // namespace foregather::ledger
