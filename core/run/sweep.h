// A sweep as rows: one a point of its grid.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"

namespace foregather::run {

/// What was asked for. Two parts of one sweep say the same.
struct SweepInfo {
  std::string tool;         ///< program and version
  std::string source;       ///< the path as given
  std::string source_text;  ///< its content; empty if that is no text
  std::string options;      ///< --set, --what-if and --where, one a line, in their order
  /// Files that points read besides that text: paths, and digests of what they hold.
  std::vector<std::pair<std::string, std::string>> inputs;
  std::vector<std::pair<std::string, std::string>> axes;  ///< key and values as written
  std::int64_t points = 0;                                ///< of the whole grid
  friend bool operator==(const SweepInfo&, const SweepInfo&) = default;
};

/// Frozen: persisted.
enum class PointStatus : std::uint8_t { fits, out_of_memory, failed };

std::string_view name(PointStatus status);

/// Figures of a candidate, as `simulate --json` has them (docs/formats.md). Times are absent after
/// an out-of-memory.
struct PointFigures {
  struct Times {
    Ns step = 0, compute_busy = 0, comm_busy = 0, exposed_comm = 0, host_bound = 0;
    std::int64_t ops = 0;
    /// Absent where a recording does not say.
    std::optional<Ns> first_step, comm_wait;
    std::optional<Bytes> on_wire;
    friend bool operator==(const Times&, const Times&) = default;
  };
  struct Peaks {
    Bytes requested = 0, allocated = 0, active = 0, reserved = 0;
    friend bool operator==(const Peaks&, const Peaks&) = default;
  };
  struct Memory {
    Bytes capacity = 0, outside_allocator = 0;
    Peaks peaks, first_peaks;           ///< of the steady and of the first step
    std::optional<Bytes> margin;        ///< left on the device
    std::optional<Bytes> oom_bytes;     ///< asked for by the allocation that found no memory
    std::optional<std::string> oom_op;  ///< launched after it
    friend bool operator==(const Memory&, const Memory&) = default;
  };
  std::string hardware, strategy;
  std::int64_t world_size = 1;
  std::int64_t parameters = 0;
  std::int64_t tokens_per_rank_step = 0;  ///< 0: not a language model
  std::optional<Times> times;
  std::optional<double> tokens_per_second;  ///< of one GPU
  std::optional<double> mfu;
  std::optional<Memory> memory;  ///< absent: the source says nothing of memory
  std::int64_t warnings = 0;
  friend bool operator==(const PointFigures&, const PointFigures&) = default;
};

struct SweepPoint {
  std::int64_t index = 0;           ///< in the grid
  std::vector<std::string> values;  ///< of the axes
  PointStatus status = PointStatus::failed;
  std::string error;                  ///< of one that failed: why
  PointFigures figures;               ///< of one that did not
  std::vector<std::string> warnings;  ///< of one that was predicted just now: no row keeps them
  friend bool operator==(const SweepPoint&, const SweepPoint&) = default;
};

/// Where the points of a sweep go.
class SweepSink {
 public:
  virtual ~SweepSink() = default;
  virtual Status add(const SweepPoint& point) = 0;
};

}  // namespace foregather::run
