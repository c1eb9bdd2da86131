// The figures of a prediction, as `simulate` reports them. Times are ns, sizes bytes; a figure is
// absent where there is none (times after an out-of-memory).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/units.h"
#include "core/ir/kinds.h"
#include "tasks/steps/step_times.h"

namespace foregather::tasks {

struct Peaks {
  Bytes requested = 0, allocated = 0, active = 0, reserved = 0;
};

struct StepMemory {
  Peaks peaks;
  /// Allocations for which the allocator gave back all that it cached; nothing without allocator.
  std::optional<std::uint64_t> retries;
  std::optional<std::string> peak_at;  ///< op key of the launch after `allocated` was largest
  std::array<Bytes, kScheduleCauses> by_cause{};
};

struct OomFigures {
  std::optional<std::string> op;  ///< op key of the launch after the failing allocation
  std::string storage;
  Bytes requested = 0;
  bool in_first_step = false;
};

/// Low and high; see tasks/interval.h.
struct Interval {
  std::optional<std::pair<Ns, Ns>> step_time;
  std::optional<std::pair<Bytes, Bytes>> reserved;
  bool is_close_call = false;  ///< is_close_call(), of the first and all later steps
  bool is_validated = false;   ///< sim::Hardware::Interval::is_validated
};

/// What the job has as a whole and each rank class has as well.
struct Figures {
  std::optional<Ns> bound;  ///< of the step time
  Bytes memory_bound = 0;
  std::optional<double> tokens_per_second;  ///< of one GPU
  std::optional<double> mfu;
  std::optional<OomFigures> oom;
  Interval interval;
};

struct ClassFigures : Figures {
  std::string name;
  std::vector<std::uint32_t> ranks;
  std::optional<StepTimes> times;  ///< steady
  StepMemory memory;               ///< steady
  std::optional<Ns> first_step;
  StepMemory first_memory;

  /// Of the first and all later steps.
  Bytes reserved() const;
};

struct PathFigure {
  std::string op;  ///< op key
  Ns time = 0;     ///< that the op adds to the step
  Ns gap = 0;      ///< before it
  std::string_view reason;
};

/// The critical path of the slowest class.
struct PathFigures {
  std::vector<PathFigure> ops;                     ///< in order of time
  Ns compute = 0, comm = 0, host = 0, other = 0;   ///< add up to the step time
  Ns compute_contention = 0, comm_contention = 0;  ///< parts of these: longer than alone
  Ns beside_compute = 0, beside_comm = 0;  ///< likewise: while the next op waited for the host
};

/// A collective of the steady step of the slowest class.
struct CollectiveFigure {
  std::string scope;  ///< "-": the root
  Phase phase = Phase::other;
  OpKind kind = OpKind::other;
  Bytes bytes = 0;  ///< NCCL's message size; 0: a recording does not say it
  std::uint32_t ranks = 1;
};

/// What one pass of --what-if did.
struct WhatIfFigure {
  std::string pass;  ///< as given
  std::string did;
  bool changed = true;  ///< false: it found nothing to do
};

enum class MemoryModel : std::uint8_t { allocator, live, thunder_estimator };

/// The clock of a recording against the first one's.
struct ClockFigures {
  Ns offset = 0;       ///< by which it is ahead
  Ns uncertainty = 0;  ///< nine of ten shared collectives ended that close to it
};

/// What was measured of one rank of a recorded source, and how far its schedule explains that.
struct RecordedFigures {
  std::string source;
  std::uint32_t rank = 0;
  Ns measured = 0;     ///< first start to last end of its device work
  Ns unexplained = 0;  ///< time in which an op waited for nothing that the recording shows
  std::int64_t pinned = 0, ops = 0, streams = 0, recorded_deps = 0, inferred_deps = 0;
  Ns clock_shift = 0;  ///< by which the host's clock was ahead of the device's
  /// Absent: one rank alone, or clocks that could not be compared.
  std::optional<ClockFigures> clock;
  std::int64_t matched = 0;  ///< collectives in which it meets other recorded ranks
  /// Its waits for other ranks are apart from its transfers: they were recorded, on comparable
  /// clocks.
  bool knows_waits = false;
};

/// Of a recorded source, before any what-if.
struct AsRecordedFigures {
  Ns step = 0;     ///< of the rank that was slowest
  Ns exposed = 0;  ///< communication of the rank that is slowest with the what-if
};

/// The figures of the job: times of its slowest class, memory of its largest.
struct Summary : Figures {
  std::string source, name, model, strategy, hardware;
  std::string batch;  ///< "micro-batch 8 × 320 tokens"; empty: the source does not say
  std::uint32_t world_size = 1;
  std::int64_t parameters = 0;
  std::int64_t tokens_per_rank_step = 0;
  MemoryModel memory_model = MemoryModel::allocator;
  std::vector<ClassFigures> classes;
  bool is_measured = true;                       ///< a recorded source: else it is a prediction
  std::vector<RecordedFigures> recorded;         ///< as classes; empty: the source is no recording
  std::optional<AsRecordedFigures> as_recorded;  ///< of a recording with a what-if
  bool has_memory = true;                        ///< false: the source says nothing of memory
  std::size_t slowest = 0;                       ///< class whose times are the job's
  std::size_t largest = 0;                       ///< class whose memory is the job's
  PathFigures path;
  std::vector<CollectiveFigure> collectives;  ///< in order of issue
  Bytes capacity = 0;
  Bytes outside_allocator = 0;
  std::optional<Bytes> argument_bytes;  ///< of a traced function: its caller holds them
  std::vector<WhatIfFigure> what_if;    ///< passes, in order
  std::vector<std::string> warnings;
  Ns simulated_in = 0;  ///< wall time

  const ClassFigures& slow() const { return classes[slowest]; }
  const ClassFigures& large() const { return classes[largest]; }
  std::optional<Ns> step_time() const;
  /// Of the class whose first step is the longest, which need not be the slowest one.
  std::optional<Ns> first_step() const;
  /// Of the slowest rank of a recorded source, which must be one.
  Ns measured_step_time() const;
  /// Whether it is known what the class waited for others: not where it met none.
  bool knows_waits(std::size_t c) const {
    if (recorded.empty()) return true;
    const bool communicates = classes[c].times && classes[c].times->busy.comm != 0;
    return recorded[c].knows_waits && (recorded[c].matched != 0 || !communicates);
  }
  /// Of the first and all later steps, of the class that needs most.
  Bytes reserved() const;
  /// Bytes left on the device, negative if too small; nothing after an out-of-memory.
  std::optional<Bytes> margin() const;
  std::optional<Bytes> margin(const ClassFigures& figures) const;
};

/// The JSON object of `simulate --json`, with a line end. See docs/formats.md.
std::string to_json(const Summary& summary);

}  // namespace foregather::tasks
