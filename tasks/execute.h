// The use case of `foregather run`: SOURCE in, a measured run out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "runtime/executor.h"

namespace foregather::tasks {

struct ExecuteRequest {
  std::string source;
  std::string backend;               ///< host, cuda
  std::vector<std::string> sets;     ///< KEY=VALUE, in order
  std::vector<std::string> what_if;  ///< passes, in order
  std::optional<std::uint32_t> ranks;
  std::uint32_t steps = 11;  ///< the first one included
  std::string output;        ///< path of the database; RUN.db is RUN.rank3.db of process 3
};

struct ExecuteProgress {
  std::int64_t ops = 0;  ///< that have ended
  std::int64_t all = 0;  ///< of all steps of the ranks that run here
};

struct ExecuteReport {
  std::string source, name, backend, hardware, output;
  std::string description;  ///< of the backend
  std::uint32_t world_size = 1;
  bool has_memory = true;  ///< else the schedule, a recording's, says nothing of it
  runtime::RunReport run;
  std::optional<std::string> oom_op;  ///< op key of the launch after the failing allocation
  std::string oom_storage;
  std::vector<std::string> warnings;
};

/// Lowers and changes SOURCE as simulate() does, with the host backend on the hardware "host"
/// unless another one is set. With the CUDA backend, a process that a launcher started as one of
/// several runs its rank (runtime/processes.h); predicts what it needs; executes it and records it
/// into a new database. Out of memory is a result. Errors: bad input; an unknown backend, or one
/// whose plug-in is missing; more memory or threads than the machine has, before anything is
/// allocated; wrong numbers (the database stays, marked as failed).
///
/// `progress` is called from another thread, now and then.
Result<ExecuteReport> execute(const ExecuteRequest& request,
                              const std::function<void(const ExecuteProgress&)>& progress = {});

/// The JSON object of `run --json`, with a line end. See docs/formats.md.
std::string to_json(const ExecuteReport& report);

}  // namespace foregather::tasks
