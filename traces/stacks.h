// Call stacks, each kept once.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/base/ids.h"
#include "core/base/strings.h"

namespace foregather::traces {

using FrameId = Id<struct FrameTag>;
using StackId = Id<struct StackTag>;

/// A line of a program.
struct Frame {
  StringId name;  ///< of the function
  StringId file;
  std::int64_t line = 0;
  friend bool operator==(const Frame&, const Frame&) = default;
};

/// Append-only sets of frames and of stacks, innermost frame first. Equal ones have one id.
class StackTable {
 public:
  FrameId add(const Frame& frame);
  StackId add(std::span<const FrameId> frames);

  const Frame& frame(FrameId id) const { return frames_[id.row()]; }
  /// Empty for an absent id.
  std::span<const FrameId> frames(StackId id) const;
  std::size_t size() const { return ends_.size(); }

 private:
  struct Hash {
    std::size_t operator()(const Frame& frame) const;
  };
  std::vector<Frame> frames_;
  std::unordered_map<Frame, FrameId, Hash> frame_ids_;
  std::vector<FrameId> flat_;
  std::vector<std::size_t> ends_;
  std::unordered_multimap<std::uint64_t, StackId> stack_ids_;  ///< by hash
};

}  // namespace foregather::traces
