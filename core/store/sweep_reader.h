// Sweeps out of a database.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/base/result.h"
#include "core/run/sweep.h"
#include "core/store/sqlite.h"

namespace foregather::store {

/// Is this a database of ours that holds a sweep?
bool is_sweep(const std::string& path);

/// The first version whose sweeps say what files they read.
inline constexpr std::int64_t kFirstWithInputs = 6;

/// What was asked for, of a database of that version. Errors: the database holds no sweep.
Result<run::SweepInfo> read_sweep_info(Database& database, std::int64_t version);

/// Points in order of their number, one by one. Values are those of `settings`, as they were
/// written. Errors: no database of ours, no sweep, rows that do not fit.
class SweepReader {
 public:
  static Result<SweepReader> open(const std::string& path);
  SweepReader(SweepReader&&) = default;

  const run::SweepInfo& info() const { return info_; }
  /// Nothing: there are no more.
  Result<std::optional<run::SweepPoint>> next();

 private:
  SweepReader(std::unique_ptr<Database> database, Statement query, run::SweepInfo info)
      : database_(std::move(database)), query_(std::move(query)), info_(std::move(info)) {}

  std::unique_ptr<Database> database_;
  Statement query_;
  run::SweepInfo info_;
};

}  // namespace foregather::store
