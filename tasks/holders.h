// Who holds the bytes at the peak.
#pragma once

#include <string>
#include <vector>

#include "core/alloc/replay.h"
#include "traces/snapshot.h"

namespace foregather::tasks {

/// A stack frame as text: "name (file:line)".
std::string shown_frame(const traces::Snapshot& snapshot, traces::FrameId frame);

/// Blocks of one frame, or of one size.
struct Holder {
  std::string frame;      ///< of holders by frame
  Bytes block_bytes = 0;  ///< of holders by size: each block
  std::size_t blocks = 0;
  Bytes bytes = 0;  ///< of all, with rounding and slack
};

/// The blocks that were live when `allocated` was largest, largest holder first.
struct Holders {
  std::vector<Holder> by_frame;
  std::vector<Holder> by_size;
};

/// The stack that allocated a block; absent: not recorded, or before the window and gone since.
traces::StackId stack_of(const traces::Snapshot& snapshot, std::size_t device,
                         const alloc::BlockLife& life);

/// The innermost line of a stack that is the user's: Python, and not of torch or another installed
/// package; where there is none, the innermost Python line, else the innermost known one.
std::string responsible_frame(const traces::Snapshot& snapshot, traces::StackId stack);

/// What a table calls who allocated a block with that stack: its responsible_frame(), or that it
/// was before the window, where no stack is known.
std::string holder_name(const traces::Snapshot& snapshot, traces::StackId stack,
                        const alloc::BlockLife& life);

Holders holders_at_peak(const traces::Snapshot& snapshot, std::size_t device,
                        const alloc::Replay& replay);

}  // namespace foregather::tasks
