// The points of a sweep into a database, in place: what was committed survives a kill.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/run/sweep.h"
#include "core/store/sqlite.h"

namespace foregather::store {

/// Numbers of points, as ranges.
class PointSet {
 public:
  /// `index` is above all that were added before.
  void add(std::int64_t index);
  bool contains(std::int64_t index) const;
  std::int64_t size() const { return size_; }

 private:
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges_;  ///< first, one past the last
  std::int64_t size_ = 0;
};

/// Appends to one database, whose journal undoes what a killed process had not committed. Rows come
/// in any order; they are committed a few times a second and by finish().
class SweepWriter final : public run::SweepSink {
 public:
  /// A new file. One that exists is an input error.
  static Result<SweepWriter> create(const std::string& path, const run::SweepInfo& info);
  /// Goes on with a file of the same sweep; creates it where there is none, or an empty one.
  /// Errors: another sweep, and in what it differs; no sweep.
  static Result<SweepWriter> resume(const std::string& path, const run::SweepInfo& info);
  SweepWriter(SweepWriter&&) = default;

  /// Points that were there when the file was opened.
  const PointSet& present() const { return present_; }
  Status add(const run::SweepPoint& point) override;
  Status finish();
  /// Instead of finish(), where no row is worth anything: a file that was not there before goes.
  void abandon();

 private:
  SweepWriter(Database database, std::vector<std::string> keys)
      : database_(std::move(database)), keys_(std::move(keys)) {}
  static Result<SweepWriter> begin(Database database, const run::SweepInfo& info);
  Status commit();

  Database database_;
  std::optional<Statement> insert_;
  std::vector<std::string> keys_;  ///< of the axes
  PointSet present_;
  bool in_transaction_ = false;
  bool is_new_ = false;                          ///< the file was not there
  std::chrono::steady_clock::time_point begun_;  ///< the transaction
};

/// Joins sweeps of one grid into a new file, and says how many points it has. Points that several
/// have must be the same in all. Errors: other sweeps, points that differ; the file is a sweep that
/// has points which these have not.
Result<std::int64_t> merge_sweeps(const std::vector<std::string>& paths, const std::string& output);

}  // namespace foregather::store
