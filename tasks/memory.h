// The use case of `foregather memory`: a PyTorch memory snapshot through the allocator.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/alloc/replay.h"
#include "core/alloc/what_if.h"
#include "core/base/result.h"
#include "core/run/run.h"
#include "tasks/holders.h"
#include "traces/snapshot.h"

namespace foregather::tasks {

struct MemoryRequest {
  std::string snapshot;  ///< path
  /// Configurations to replay under: texts of PYTORCH_CUDA_ALLOC_CONF, or "default".
  std::vector<std::string> alloc_confs;
  alloc::WhatIfStart start = alloc::WhatIfStart::recorded;
  /// Absent: what the device had when memory ran out in the recording (from a recorded start), else
  /// no limit.
  std::optional<Bytes> capacity;
  bool record_runs = false;  ///< for the store
};

/// One configuration on one device.
struct WhatIfRow {
  std::string name;  ///< as it was asked for
  alloc::AllocConfig config;
  std::optional<Bytes> capacity;
  alloc::WhatIfFigures figures;
};

/// One device.
struct MemoryTrace {
  std::size_t device = 0;
  std::size_t events = 0;
  alloc::Replay replay;
  std::string diverging_action;              ///< of the first divergence
  std::vector<std::string> diverging_stack;  ///< of the same, innermost first; may be empty
  Holders holders;
  std::vector<WhatIfRow> what_if;  ///< in the order of the request
};

struct MemoryReport {
  std::string source;
  alloc::AllocConfig config;                                ///< as recorded
  alloc::WhatIfStart start = alloc::WhatIfStart::recorded;  ///< as requested
  std::vector<MemoryTrace> traces;
  std::vector<std::string> warnings;
  std::vector<run::Run> runs;  ///< the recording, if asked for
};

/// Reads, rewinds and replays. Errors: an unreadable snapshot, events that contradict its segments,
/// an unknown configuration.
Result<MemoryReport> examine_snapshot(const MemoryRequest& request);
/// The same of one that was read from MemoryRequest::snapshot.
Result<MemoryReport> examine_snapshot(const traces::Snapshot& snapshot,
                                      const MemoryRequest& request);

/// "80GiB", "40000MiB", "85899345920": a positive number of bytes.
Result<Bytes> parse_capacity(const std::string& text);

}  // namespace foregather::tasks
