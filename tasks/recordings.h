// From a memory snapshot's rows to what the allocator's replay reads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/alloc/recording.h"
#include "traces/snapshot.h"

namespace foregather::tasks {

/// The history of one device. Row n of the recording is row n of Snapshot::traces[device].
struct DeviceRecording {
  std::size_t device = 0;
  alloc::Recording recording;
};

/// The options that were in force, from the fields of `settings`, else from its configuration text.
/// What they leave open has PyTorch's default. A text that cannot be read is a warning.
alloc::AllocConfig recorded_config(const traces::Snapshot& snapshot,
                                   std::vector<std::string>& warnings);

/// The devices that have events or segments, in order.
std::vector<DeviceRecording> recordings(const traces::Snapshot& snapshot,
                                        const alloc::AllocConfig& config,
                                        std::vector<std::string>& warnings);

}  // namespace foregather::tasks
