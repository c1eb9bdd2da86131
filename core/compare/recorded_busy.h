// How the device time of a recording divides, as its tool recorded it: nothing is inferred.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/run/recording.h"

namespace foregather::compare {

struct RecordedStream {
  run::LaneRow lane;
  std::int64_t activities = 0, kernels = 0;
  Ns busy = 0;         ///< union of its activities
  Ns kernel_busy = 0;  ///< union of its kernels
};

struct RecordedComm {
  std::int64_t count = 0;
  Ns time = 0;  ///< sum
};

/// See run::is_communication_kernel() for which kernels are communication; every other one is
/// compute, copies and fills are neither. Of one device, or of several added up (unions are never
/// merged over devices).
struct RecordedBusy {
  std::int64_t activities = 0, kernels = 0, comm_kernels = 0;
  Ns kernel_time = 0, comm_time = 0;  ///< sums
  Ns comm = 0, compute = 0;           ///< unions of communication and of compute kernels
  Ns overlap = 0;                     ///< of those two unions
  Ns busy = 0;                        ///< union of all activities
  std::map<std::string_view, RecordedComm> by_kind;
  Ns exposed() const { return comm - overlap; }
};

struct RecordedDevice {
  StringId name;  ///< Lane::process
  RecordedBusy busy;
};

/// Activities like one before: lane, name, start and end. n log n.
std::int64_t duplicate_activities(const run::Recording& recording);

struct RecordedFigures {
  RecordedBusy all;
  std::vector<RecordedDevice> devices;  ///< in order of appearance
  std::vector<RecordedStream> streams;  ///< most activities first
  Ns first_start = 0, last_end = 0;     ///< of the activities
  Ns first_kernel = 0, last_kernel = 0;
  std::int64_t duplicates = 0;  ///< see duplicate_activities()
};

/// n log n in the activities. Sums saturate.
RecordedFigures recorded_figures(const run::Recording& recording);

}  // namespace foregather::compare
