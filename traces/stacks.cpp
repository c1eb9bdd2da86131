#include "traces/stacks.h"

#include <algorithm>

namespace foregather::traces {
namespace {

constexpr std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15U;
  return hash ^ hash >> 29;
}

}  // namespace

std::size_t StackTable::Hash::operator()(const Frame& frame) const {
  return mixed(mixed(mixed(1, frame.name.row()), frame.file.row()),
               static_cast<std::uint64_t>(frame.line));
}

FrameId StackTable::add(const Frame& frame) {
  const auto [entry, is_new] = frame_ids_.try_emplace(frame, FrameId(frames_.size()));
  if (is_new) frames_.push_back(frame);
  return entry->second;
}

std::span<const FrameId> StackTable::frames(StackId id) const {
  if (!id) return {};
  const std::size_t begin = id.row() == 0 ? 0 : ends_[id.row() - 1];
  return std::span(flat_).subspan(begin, ends_[id.row()] - begin);
}

StackId StackTable::add(std::span<const FrameId> frames) {
  std::uint64_t hash = frames.size();
  for (const FrameId frame : frames) hash = mixed(hash, frame.row());
  const auto [first, last] = stack_ids_.equal_range(hash);
  for (auto entry = first; entry != last; ++entry)
    if (std::ranges::equal(this->frames(entry->second), frames)) return entry->second;
  const StackId id(ends_.size());
  flat_.insert(flat_.end(), frames.begin(), frames.end());
  ends_.push_back(flat_.size());
  stack_ids_.emplace(hash, id);
  return id;
}

}  // namespace foregather::traces
