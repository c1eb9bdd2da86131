// Memory snapshots that the side-car took of a recorded process, as rows of its recording.
#pragma once

#include <string>
#include <vector>

#include "core/run/recording.h"

namespace foregather::tasks {

/// The snapshots beside a raw recording: of X.sqlite all X.….memory.pickle, by name.
std::vector<std::string> snapshots_beside(const std::string& raw_recording);

/// Those in a folder that lie beside no raw recording.
std::vector<std::string> snapshots_alone(const std::string& folder);

/// Adds what the snapshots say of the memory of a process's GPUs, on the recording's clock: each
/// allocation and free with the bytes of its block and the totals after it, as the allocator's
/// replay has them. The events name no thread. What changed between two snapshots changed half way.
/// A snapshot that cannot be read, names no times or does not replay is a warning.
void add_snapshots(const std::vector<std::string>& paths, run::Recording& recording);

}  // namespace foregather::tasks
