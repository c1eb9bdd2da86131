// Where the results of a prediction go.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "core/base/result.h"
#include "core/run/run.h"
#include "core/store/writer.h"

namespace foregather::tasks {

/// Do both paths lead to one file? Neither needs to exist.
bool is_same_file(const std::string& a, const std::string& b);

/// Two outputs that are one file, or one that is an input: an error at the output. Empty paths: not
/// asked for.
Status check_outputs(const std::vector<std::string>& outputs,
                     const std::vector<std::string>& inputs);

/// The files that a command was asked for, opened before the work starts so that an unwritable
/// place costs nothing. Files appear complete or not at all.
class Outputs {
 public:
  /// Empty paths: not asked for. Two outputs must not be one file.
  static Result<Outputs> open(const std::string& database, const std::string& trace,
                              const std::string& dump);

  bool wants_run() const { return database_.has_value() || trace_.has_value(); }
  /// Writes the runs to the database, the first one to the trace, the text of the schedule to the
  /// dump, and gives the files their names. None may be one of `inputs`.
  Status write(std::span<const run::Run> runs, std::string_view dump,
               const std::vector<std::string>& inputs);

 private:
  std::vector<std::string> paths_;  ///< of all that are not empty
  std::optional<store::RunWriter> database_;
  std::optional<PendingFile> trace_;
  std::optional<PendingFile> dump_;
};

}  // namespace foregather::tasks
