// Runs a schedule for real.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/alloc/config.h"
#include "core/ledger/program_memory.h"
#include "core/run/recording_sink.h"
#include "runtime/device.h"
#include "runtime/groups.h"
#include "runtime/rank_run.h"

namespace foregather::runtime {

struct RunOptions {
  // What changes the result.
  std::uint32_t steps = 0;  ///< the first one included
  alloc::AllocConfig alloc;
  Bytes capacity = 0;                   ///< of each device, for the allocator
  double link_scale = 1;                ///< bandwidth of links × this
  std::vector<double> speeds;           ///< as Job::speeds
  std::optional<ProcessPlace> process;  ///< as Job::process
  // What changes what is kept of a run that is killed.
  Ns flush_interval = kSecond;
  // What changes neither.
  std::function<void(std::int64_t ops)> progress;  ///< ops that have ended; from one thread
};

struct RankFigures {
  std::uint32_t rank = 0;
  run::StepInfo first, steady;  ///< the last finished one where there is no steady one
};

struct RunReport {
  std::uint32_t steps = 0;  ///< that every rank finished
  std::optional<OutOfMemory> oom;
  std::optional<Ns> step_time;     ///< the median of the steps after the first
  std::vector<RankFigures> ranks;  ///< that finished a step
  BackendReport backend;
  std::int64_t ops = 0;
};

/// Performs init, the first step and bodies on the backend's devices, and records all steps. The
/// graph is valid and can be simulated: a schedule whose threads wait for each other for ever is
/// given up after a minute without progress. Rows that were recorded stay whatever the outcome; out
/// of memory is an outcome. Errors: the backend's; wrong numbers, named by op key; a sink that
/// cannot be written.
Result<RunReport> execute(const Graph& graph, const RunOptions& options, Backend& backend,
                          run::RecordingSink& sink);

}  // namespace foregather::runtime
