// A memory snapshot as a run, for the store and the views.
#pragma once

#include <span>

#include "core/run/run.h"
#include "tasks/memory.h"
#include "tasks/recordings.h"
#include "traces/snapshot.h"

namespace foregather::tasks {

/// One measured run: a class for each device, with one step that is the window. Each block is a
/// binding named after the line that allocated it; the replayed curve is the memory curve. Times
/// are host times of the events since the first of them; without recorded times an event takes 1
/// µs.
run::Run snapshot_run(const traces::Snapshot& snapshot, std::span<const DeviceRecording> devices,
                      const MemoryReport& report);

}  // namespace foregather::tasks
