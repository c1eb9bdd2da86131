// Runs into a database.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "core/base/result.h"
#include "core/run/comparison.h"
#include "core/run/run.h"
#include "core/store/sqlite.h"

namespace foregather::store {

/// Writes a new database under a temporary name beside `path`; finish() gives it its name. Without
/// finish() nothing is left. One transaction; each table is appended in the order of its key.
class RunWriter {
 public:
  /// An unwritable place is an error now, before there is anything to write.
  static Result<RunWriter> create(const std::string& path);

  /// Appends a run. Its name must differ from the names written before.
  Status write(run::RunView run);
  /// Appends a comparison of runs that were written before.
  Status write(const run::Comparison& comparison);
  /// Completes the file. Nothing may be written afterwards.
  Status finish();

 private:
  RunWriter(PendingFile file, Database database, bool in_memory)
      : file_(std::move(file)), database_(std::move(database)), in_memory_(in_memory) {}

  PendingFile file_;
  Database database_;
  bool in_memory_;  ///< the target is no regular file: its bytes are written at the end
  std::vector<std::string> names_;  ///< of the runs
  std::int64_t comparisons_ = 0;
};

}  // namespace foregather::store
