#include "core/alloc/recorded_device.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "core/alloc/rounding.h"

namespace foregather::alloc {
namespace {

constexpr int kMostRefusals = 2;

constexpr std::array kActions{RecordedAction::segment_alloc, RecordedAction::segment_free,
                              RecordedAction::segment_map, RecordedAction::segment_unmap};

std::string shown(RecordedAction action, Bytes size, Address address) {
  return fmt::format("{} of {} bytes at {:#x}", name(action), size, address);
}

std::string shown(const RecordedEvent& event) {
  return shown(event.action, event.size, event.address);
}

}  // namespace

RecordedDevice::RecordedDevice(const Recording& recording)
    : recording_(recording), arenas_(recording) {}

void RecordedDevice::hold(const SegmentLayout& segment) {
  held_.emplace(segment.address, segment.expandable ? 0 : segment.size);
}

void RecordedDevice::begin_malloc(std::size_t first, std::size_t last, PoolKind kind, bool is_oom) {
  next_ = first;
  last_ = last;
  kind_ = kind;
  is_oom_ = is_oom;
  refusals_ = 0;
  difference_.clear();
}

void RecordedDevice::begin_release(std::size_t first, std::size_t last) {
  begin_malloc(first, last, PoolKind::large, false);
}

std::string RecordedDevice::end_operation() {
  if (difference_.empty() && next_ < last_)
    difference_ = fmt::format("recorded a {}, which the replay has no reason for",
                              shown(recording_.events[next_]));
  return std::move(difference_);
}

bool RecordedDevice::is_refused() {
  if (next_ == last_) return is_oom_;
  return is_release(recording_.events[next_].action) && refusals_++ < kMostRefusals;
}

bool RecordedDevice::is_free(Address address, Bytes size) const {
  const auto after = held_.upper_bound(address);
  if (after != held_.end() && after->first < address + size) return false;
  if (after == held_.begin()) return true;
  const auto before = std::prev(after);
  return before->first + before->second <= address;
}

bool RecordedDevice::is_usable(Address address, Bytes size) const {
  return address > 0 && address % kMinBlockSize == 0 &&
         address <= FreeIndex::kAddressLimit - size && is_free(address, size);
}

Address RecordedDevice::invented(Bytes size) {
  const Address address = next_invented_;
  next_invented_ += (size + 2 * MiB - 1) / (2 * MiB) * (2 * MiB);
  return address;
}

std::optional<Address> RecordedDevice::allocate(Bytes size, StreamId) {
  if (is_refused()) return std::nullopt;
  if (next_ < last_) {
    const RecordedEvent& event = recording_.events[next_];
    if (event.action == RecordedAction::segment_alloc && is_usable(event.address, size)) {
      held_.emplace(event.address, size);
      return event.address;
    }
  }
  const Address address = invented(size);
  if (address + size > FreeIndex::kAddressLimit) return std::nullopt;
  held_.emplace(address, size);
  return address;
}

void RecordedDevice::release(Address address, Bytes) { held_.erase(address); }

// Where the next mapping of that stream and pool lies that is in no arena.
std::optional<Address> RecordedDevice::reserve(Bytes size, StreamId stream) {
  for (std::size_t i = next_; i < recording_.events.size(); ++i) {
    const RecordedEvent& event = recording_.events[i];
    if (event.action != RecordedAction::segment_map || event.stream != stream ||
        arenas_.kind(i) != kind_)
      continue;
    if (!is_usable(event.address, event.size) || event.address > FreeIndex::kAddressLimit - size)
      break;
    held_.emplace(event.address, 0);
    return event.address;
  }
  const Address address = invented(size);
  if (address + size > FreeIndex::kAddressLimit) return std::nullopt;
  held_.emplace(address, 0);
  return address;
}

void RecordedDevice::unreserve(Address address, Bytes) { held_.erase(address); }

bool RecordedDevice::map(Address address, Bytes size, Bytes) {
  return !is_refused() && is_free(address, size);
}

void RecordedDevice::segment(const SegmentEvent& event) {
  ++replayed_;
  const RecordedAction action = kActions[static_cast<std::size_t>(event.action)];
  if (next_ == last_) {
    if (difference_.empty())
      difference_ = fmt::format("the replay has a {}, which was not recorded",
                                shown(action, event.size, event.address));
    return;
  }
  const RecordedEvent& recorded = recording_.events[next_++];
  if (recorded.action == action && recorded.address == event.address &&
      recorded.size == event.size && recorded.stream == event.stream) {
    ++exact_;
    return;
  }
  if (difference_.empty())
    difference_ = fmt::format("the replay has a {}, recorded is a {}",
                              shown(action, event.size, event.address), shown(recorded));
}

StreamId RecordedClock::acquire() {
  StreamId stream(first_ + done_.size());
  if (spare_.empty()) {
    done_.push_back(false);
  } else {
    stream = spare_.back();
    spare_.pop_back();
    done_[stream.row() - first_] = false;
  }
  return stream;
}

}  // namespace foregather::alloc
