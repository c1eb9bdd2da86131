// Nsight Systems' SQLite exports (nsys export --type sqlite).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/run/recording.h"

namespace foregather::traces {

/// What the file says about itself, beyond what a recording keeps.
struct NsysFacts {
  std::map<std::string, std::int64_t> tables;  ///< rows of those that have any
  /// EXPORT_PRODUCT_VERSION and EXPORT_SCHEMA_VERSION with its major and minor number.
  std::vector<std::pair<std::string, std::string>> meta;
  std::int64_t nvtx_ranges = 0;  ///< NVTX events with an end
  bool is_raw = false;           ///< a raw recording of our own
};

struct NsysTrace {
  run::Recording recording;
  NsysFacts facts;
};

/// Reads an export of any schema version (2.9 of 2022 to 3.25 of 2026 are tested): columns are
/// found by name, a table or column that is not there is empty. Device work lies in lanes
/// "DEVICE/STREAM" over all processes, calls and NVTX ranges in "PROCESS/THREAD"; correlation ids
/// are of their process. Rows of tables with a `start` or `timestamp` are the events that are
/// counted.
///
/// Raw recordings of our own are such exports, and hold more: see read_raw_recording().
///
/// A row without times, a device or a stream, or that ends before it starts, is dropped and
/// counted. One pass a table, memory for the columns and the texts. Errors: see ForeignDatabase; a
/// database that is no export.
Result<NsysTrace> read_nsys(const std::string& path);

}  // namespace foregather::traces
