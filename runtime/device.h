// The border between what performs a schedule's host threads and what its device work runs on.
//
// A backend makes the devices of all ranks. `host` is built in; another one is a plug-in library
// beside the program, opened by name at run time, that exports foregather_backend().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/alloc/device_memory.h"
#include "core/base/result.h"
#include "core/ir/graph.h"
#include "core/run/rows.h"
#include "runtime/clock.h"
#include "runtime/processes.h"

namespace foregather::runtime {

/// All work enqueued on a stream up to here; `position` counts what was enqueued before. Position 0
/// has always happened.
struct Mark {
  StreamId stream;
  std::uint64_t position = 0;
};

/// Where an access of an op lies when it is launched; null: its storage has no device memory.
struct BoundAccess {
  TensorId tensor;
  Access mode = Access::read;
  DType dtype = DType::f32;
  std::byte* data = nullptr;
  Bytes bytes = 0;
};

/// One execution of an op, as the host enqueues it.
struct Launch {
  OpId op;
  std::uint32_t step = 0;  ///< 0: init, 1: the first step, then bodies
  Ns issued = 0;           ///< on the clock of the run
  run::HostCallRow call;   ///< of the recording
  std::span<const BoundAccess> accesses;
  std::span<const Mark> deps;  ///< explicit deps of the op that run on other streams
};

/// What became of a launched op, on the clock of the run.
struct OpDone {
  std::uint32_t rank = 0;  ///< row of the job's ranks
  OpId op;
  std::uint32_t step = 0;  ///< as launched
  run::HostCallRow call;   ///< as launched
  Ns issued = 0, start = 0, transfer = 0, end = 0;
  run::BoundReason reason = run::BoundReason::start;
  OpId bound_by;                 ///< absent: not known
  std::uint32_t bound_rank = 0;  ///< whose op that is: another one's only after a rendezvous
};

/// How a device tells what happened. Called by any of its threads.
class DeviceEvents {
 public:
  virtual ~DeviceEvents() = default;
  virtual void done(const OpDone& op) = 0;
  /// The job cannot go on: the first error counts, and everything stops.
  virtual void failed(Error error) = 0;
};

/// The device of one rank. Enqueueing and waiting are called by the rank's host threads, one at a
/// time for each stream. Waits return early once the job has failed.
class Device {
 public:
  virtual ~Device() = default;
  virtual alloc::DeviceMemory& memory() = 0;
  /// Known values of `seed`, in order with `stream`: what a job finds before its first step.
  virtual void fill(StreamId stream, std::byte* to, Bytes bytes, DType type,
                    std::uint64_t seed) = 0;
  /// Returns the mark behind it.
  virtual Mark launch(const Launch& launch) = 0;
  /// Everything enqueued on `stream` until now.
  virtual Mark mark(StreamId stream) = 0;
  /// Later work of `stream` waits for it.
  virtual void wait(StreamId stream, Mark mark) = 0;
  virtual bool has_happened(Mark mark) = 0;
  virtual void synchronize(Mark mark) = 0;
};

/// What the devices of a job are made for.
struct Job {
  const Graph* graph = nullptr;
  std::vector<std::uint32_t> ranks;     ///< of the schedule, ascending
  std::vector<std::uint32_t> class_of;  ///< row of Graph::classes, by rank
  Bytes capacity = 0;                   ///< of each device, for the allocator
  double link_scale = 1;                ///< bandwidth of links × this
  std::vector<double> speeds;           ///< by cost: its rated time ÷ this; none: all 1
  std::optional<ProcessPlace> process;  ///< one process a rank; absent: all ranks are in this one

  double speed(CostId cost) const { return speeds.empty() ? 1 : speeds[cost.row()]; }
  const Clock* clock = nullptr;
  DeviceEvents* events = nullptr;
};

/// What a backend found out while it ran.
struct BackendReport {
  std::int64_t checked_collectives = 0;  ///< whose values were compared, element by element
  std::int64_t checked_casts = 0;
  std::int64_t checked_bytes = 0;
  std::int64_t unchecked_collectives = 0;  ///< the schedule does not say what they move
  std::int64_t overruns = 0;  ///< ops whose work took longer than the device is rated for
  Ns longest_overrun = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  /// One word: "host".
  virtual std::string_view name() const = 0;
  /// Whether this machine has what it needs. Errors name the remedy.
  virtual Status ready() = 0;
  /// For the hardware column of the run and for a person: "OpenBLAS 0.3.21". Final after open().
  virtual std::string description() const = 0;
  /// Devices of all ranks of the job, as Job::ranks. The job outlives them.
  virtual Result<std::vector<std::unique_ptr<Device>>> open(const Job& job) = 0;
  /// The job is over early: everything that waits returns, what is queued is left. May be called
  /// again and again.
  virtual void abandon() = 0;
  /// Performs what is queued and ends all threads of the devices; nothing is enqueued afterwards.
  virtual void stop() = 0;
  virtual BackendReport report() const = 0;
};

/// What a plug-in exports, as `extern "C"`. The version changes with every change of this file; a
/// plug-in of another one is refused.
inline constexpr std::uint32_t kBackendVersion = 2;
struct BackendPlugin {
  std::uint32_t version = kBackendVersion;
  Backend* (*create)() = nullptr;
  void (*destroy)(Backend*) = nullptr;
};
using BackendEntry = const BackendPlugin* (*)();
inline constexpr const char* kBackendEntry = "foregather_backend";

}  // namespace foregather::runtime
