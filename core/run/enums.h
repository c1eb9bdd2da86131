// The vocabulary of a run, beyond core/ir/kinds.h. Enumerators are persisted by value: append only.
#pragma once

#include <cstdint>
#include <string_view>

namespace foregather::run {

/// Where the rows of a run come from.
enum class RunKind : std::uint8_t { predicted, measured };

/// How a recording ended.
enum class RunState : std::uint8_t {
  complete,
  under_way,  ///< it is still recorded, or was cut short: rows end where it was
  failed,     ///< the job did
};

/// Why an op did not start earlier.
enum class BoundReason : std::uint8_t {
  start,         ///< nothing before it
  host,          ///< its launch
  stream,        ///< the op before it on its stream
  event,         ///< an op behind an event that its stream waited for
  communicator,  ///< the collective before it
  rendezvous,    ///< the last rank to arrive
  dependency,    ///< an explicit dependency
};

/// Which step of a run.
enum class StepKind : std::uint8_t {
  first,   ///< may create optimizer states
  steady,  ///< every later step is like it
  other,   ///< one of several recorded steps
};

/// What happened to memory that the allocator holds from the driver.
enum class SegmentChange : std::uint8_t {
  held,       ///< held when the step began
  allocated,  ///< by cudaMalloc
  released,   ///< by cudaFree
  mapped,     ///< into an expandable segment
  unmapped,   ///< out of one
};

/// How finely ops of two runs met. An op key has all of it; a recording may know less.
enum class MatchLevel : std::uint8_t { op, scope_kind, scope_phase, phase };
inline constexpr std::size_t kMatchLevels = 4;

std::string_view name(RunKind);
std::string_view name(BoundReason);
std::string_view name(StepKind);
std::string_view name(MatchLevel);

}  // namespace foregather::run
