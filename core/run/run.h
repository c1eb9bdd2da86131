// A run as columns: what a simulation predicted or a profiler measured.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "core/base/strings.h"
#include "core/run/columns.h"
#include "core/run/rows.h"
#include "core/run/work_sample.h"

namespace foregather::run {

/// Where producers put rows. Rows refer only to rows that were added before them, except that
/// `bound_by` and `peak_at` may name a later op.
class RunSink {
 public:
  virtual ~RunSink() = default;
  /// The id of a text, the same for equal texts.
  virtual StringId text(std::string_view text) = 0;
  virtual void info(const RunInfo& info) = 0;
  virtual ClassRow add(const ClassInfo& row) = 0;
  virtual StreamRow add(const StreamInfo& row) = 0;
  virtual CommunicatorRow add(const CommunicatorInfo& row) = 0;
  virtual StepRow add(const StepInfo& row) = 0;
  virtual ThreadRow add(const ThreadInfo& row) = 0;
  virtual HostCallRow add(const HostCallRecord& row) = 0;
  virtual void add(const StreamWaitRecord& row) = 0;
  virtual OpRow add(const OpRecord& row) = 0;
  virtual void add(const CollectiveRecord& row) = 0;
  virtual void add(const KernelLaunch& row) = 0;
  virtual void add(const BindingRecord& row) = 0;
  virtual void add(const SegmentRecord& row) = 0;
  virtual void add(const MemoryRecord& row) = 0;
  virtual void add(const CauseRecord& row) = 0;
  virtual void add(const FailureRecord& row) = 0;
  virtual void add(const KernelWork& row) = 0;
};

/// A run in memory. Consumers read its members; producers fill it through RunSink.
class Run final : public RunSink {
 public:
  RunInfo about;
  StringTable strings;
  std::vector<ClassInfo> classes;
  std::vector<StreamInfo> streams;
  std::vector<CommunicatorInfo> communicators;
  std::vector<StepInfo> steps;
  std::vector<ThreadInfo> threads;
  std::vector<HostCallRecord> calls;
  std::vector<StreamWaitRecord> waits;
  OpColumns ops;
  std::vector<CollectiveRecord> collectives;  ///< by op
  std::vector<KernelLaunch> kernel_launches;  ///< by op
  std::vector<BindingRecord> bindings;
  std::vector<SegmentRecord> segments;
  std::vector<MemoryRecord> memory;
  std::vector<CauseRecord> causes;
  std::vector<FailureRecord> failures;
  std::vector<KernelWork> works;

  StringId text(std::string_view text) override { return strings.intern(text); }
  void info(const RunInfo& info) override { about = info; }
  ClassRow add(const ClassInfo& row) override;
  StreamRow add(const StreamInfo& row) override;
  CommunicatorRow add(const CommunicatorInfo& row) override;
  StepRow add(const StepInfo& row) override;
  ThreadRow add(const ThreadInfo& row) override;
  HostCallRow add(const HostCallRecord& row) override;
  void add(const StreamWaitRecord& row) override { waits.push_back(row); }
  OpRow add(const OpRecord& row) override;
  void add(const CollectiveRecord& row) override { collectives.push_back(row); }
  void add(const KernelLaunch& row) override { kernel_launches.push_back(row); }
  void add(const BindingRecord& row) override { bindings.push_back(row); }
  void add(const SegmentRecord& row) override { segments.push_back(row); }
  void add(const MemoryRecord& row) override { memory.push_back(row); }
  void add(const CauseRecord& row) override { causes.push_back(row); }
  void add(const FailureRecord& row) override { failures.push_back(row); }
  void add(const KernelWork& row) override { works.push_back(row); }

  std::string_view text_of(StringId id) const { return strings.text(id); }
};

/// How consumers see a run.
using RunView = const Run&;

/// The ops of one step, first and one past the last row. Binary search: ops are in step order.
struct OpSpan {
  std::size_t first = 0;
  std::size_t last = 0;
};
OpSpan ops_of(RunView run, StepRow step);

/// Puts the rows of a recording whose ranks wrote in turns into the order that consumers see: steps
/// by class and number, then everything by step, as it came. n log n.
void sort_steps(Run& run);

/// Rows of steps of that kind, in order of class.
std::vector<StepRow> steps_of(RunView run, StepKind kind);

}  // namespace foregather::run
