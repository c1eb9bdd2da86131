// Where the results of a prediction go.
#pragma once

#include <optional>
#include <string>

#include "core/base/file.h"
#include "core/base/result.h"
#include "core/run/run.h"
#include "core/store/writer.h"

namespace foregather::tasks {

/// The files that a command was asked for, opened before the work starts so that an unwritable
/// place costs nothing. Files appear complete or not at all.
class Outputs {
 public:
  /// Empty paths: not asked for. Two outputs must not be one file.
  static Result<Outputs> open(const std::string& database, const std::string& trace);

  bool wants_run() const { return database_.has_value() || trace_.has_value(); }
  /// Writes the run to all of them and gives the files their names.
  Status write(run::RunView run);

 private:
  std::optional<store::RunWriter> database_;
  std::optional<PendingFile> trace_;
};

}  // namespace foregather::tasks
