// A run into a database while it happens.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/run/recording_sink.h"
#include "core/store/row_inserts.h"
#include "core/store/sqlite.h"

namespace foregather::store {

/// Writes a new database in place, one transaction a commit: killed at any moment, the file holds
/// what was committed, and says that the run was cut short. It may be read while it is written. One
/// thread.
class RecordingWriter final : public run::RecordingSink {
 public:
  /// An input error where a file (or anything else) is already, or the place is not writable.
  static Result<std::unique_ptr<RecordingWriter>> create(const std::string& path);
  ~RecordingWriter() override;

  StringId text(std::string_view text) override { return pending_.text(text); }
  /// Before the first commit; its state is `under_way` until finish().
  void info(const run::RunInfo& info) override { pending_.info(info); }
  run::ClassRow add(const run::ClassInfo& row) override;
  run::StreamRow add(const run::StreamInfo& row) override;
  run::CommunicatorRow add(const run::CommunicatorInfo& row) override;
  run::StepRow add(const run::StepInfo& row) override;
  run::ThreadRow add(const run::ThreadInfo& row) override;
  run::HostCallRow add(const run::HostCallRecord& row) override;
  void add(const run::StreamWaitRecord& row) override { pending_.add(row); }
  run::OpRow add(const run::OpRecord& row) override;
  void add(const run::CollectiveRecord& row) override { pending_.add(row); }
  void add(const run::BindingRecord& row) override { pending_.add(row); }
  void add(const run::SegmentRecord& row) override { pending_.add(row); }
  void add(const run::MemoryRecord& row) override { pending_.add(row); }
  void add(const run::CauseRecord& row) override { pending_.add(row); }
  void add(const run::FailureRecord& row) override { pending_.add(row); }
  void add(const run::KernelWork& row) override { pending_.add(row); }
  void add(const run::KernelLaunch& row) override { pending_.add(row); }
  void change(run::StepRow step, const run::StepInfo& info) override;
  Status commit() override;

  /// The last commit: the run is complete, or its job has failed; and what to know of it, beside
  /// what info() said. Closes the file.
  Status finish(run::RunState state, std::span<const std::string> warnings = {});
  /// Was anything that happened added?
  bool has_begun() const { return written_.ops > 0 || pending_.ops.size() > 0; }
  /// Removes the file: the run never began.
  void discard();

 private:
  explicit RecordingWriter(Database database, const std::string& path)
      : database_(std::move(database)), path_(path) {}
  Status write();
  Status write_changes();
  Status without_journal();

  Database database_;
  std::string path_;
  run::Run pending_;  ///< rows since the last commit, and all strings
  RowCounts written_;
  std::vector<std::pair<run::StepRow, run::StepInfo>> changes_;
  bool has_info_ = false;
};

}  // namespace foregather::store
