// What `foregather record` tells the processes that it starts, by environment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace foregather::profiler {

/// What can be recorded. Bits of a mask.
enum class Kind : std::uint32_t {
  kernel = 1U << 0U,
  memcpy = 1U << 1U,
  memset = 1U << 2U,
  runtime = 1U << 3U,
  driver = 1U << 4U,
  sync = 1U << 5U,      ///< synchronisations
  event = 1U << 6U,     ///< CUDA events
  overhead = 1U << 7U,  ///< of CUPTI itself, and compilation
  memory = 1U << 8U,    ///< cudaMalloc and memory pools
  external = 1U << 9U,  ///< external correlation ids
  graph = 1U << 10U,    ///< CUDA graphs as wholes, instead of their nodes
  nvtx = 1U << 11U,
  nccl = 1U << 12U,
  nccl_steps = 1U << 13U,  ///< each step of each proxy: many
};
using Kinds = std::uint32_t;
constexpr bool has(Kinds kinds, Kind kind) { return (kinds & static_cast<Kinds>(kind)) != 0; }

/// The names of --kinds, in the order of the bits.
const std::vector<std::pair<std::string_view, Kind>>& kind_names();

/// All but graph and nccl-steps.
Kinds default_kinds();

/// "kernel,nvtx"; names with '+' or '-' before them change the default. Nothing: `unknown` is no
/// kind.
std::optional<Kinds> parse_kinds(std::string_view text, std::string& unknown);

/// Variables of the environment.
inline constexpr const char* kDirectoryVariable = "FOREGATHER_RECORD_DIR";
inline constexpr const char* kKindsVariable = "FOREGATHER_RECORD_KINDS";     // a number
inline constexpr const char* kDelayVariable = "FOREGATHER_RECORD_DELAY_NS";  // of each process
inline constexpr const char* kDurationVariable = "FOREGATHER_RECORD_DURATION_NS";
inline constexpr const char* kRangeVariable = "FOREGATHER_RECORD_RANGE";
inline constexpr const char* kStepsVariable = "FOREGATHER_RECORD_STEPS";      // "A..B"
inline constexpr const char* kBytesVariable = "FOREGATHER_RECORD_MAX_BYTES";  // of one process
inline constexpr const char* kHostOnlyVariable = "FOREGATHER_RECORD_HOST_ONLY";

struct Settings {
  std::string directory;  ///< of the raw recordings
  Kinds kinds = default_kinds();
  std::int64_t delay = 0;                ///< ns after the process began
  std::optional<std::int64_t> duration;  ///< ns from there on
  std::string range;                     ///< NVTX range within which is recorded; empty: all
  /// First and last N of NVTX ranges "ProfilerStep#N" within which is recorded.
  std::optional<std::pair<std::int64_t, std::int64_t>> steps;
  std::optional<std::int64_t> max_bytes;
  bool host_only = false;  ///< no CUPTI
};

/// Nothing: this process is not recorded.
std::optional<Settings> settings_from_environment();

/// "3..5", or "3".
std::optional<std::pair<std::int64_t, std::int64_t>> parse_steps(std::string_view text);

}  // namespace foregather::profiler
