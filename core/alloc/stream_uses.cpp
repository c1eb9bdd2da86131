#include "core/alloc/stream_uses.h"

namespace foregather::alloc {

void StreamUses::add(std::uint32_t& list, std::uint32_t stream, bool in_capture) {
  std::uint32_t last = kNone;
  for (std::uint32_t node = list; node != kNone; node = nodes_[node].next) {
    if (nodes_[node].stream == stream) {
      nodes_[node].in_capture |= in_capture;
      return;
    }
    last = node;
  }
  std::uint32_t added;
  if (spare_.empty()) {
    added = static_cast<std::uint32_t>(nodes_.size());
    nodes_.emplace_back();
  } else {
    added = spare_.back();
    spare_.pop_back();
  }
  nodes_[added] = {stream, kNone, in_capture};
  (last == kNone ? list : nodes_[last].next) = added;
}

void StreamUses::drop_captured(std::uint32_t& list) {
  std::uint32_t kept = kNone;
  std::uint32_t last = kNone;
  for (std::uint32_t node = list; node != kNone;) {
    const std::uint32_t next = nodes_[node].next;
    if (nodes_[node].in_capture) {
      release(node);
    } else {
      (last == kNone ? kept : nodes_[last].next) = node;
      nodes_[node].next = kNone;
      last = node;
    }
    node = next;
  }
  list = kept;
}

void StreamUses::clear(std::uint32_t& list) {
  for (std::uint32_t node = list; node != kNone; node = nodes_[node].next) release(node);
  list = kNone;
}

}  // namespace foregather::alloc
