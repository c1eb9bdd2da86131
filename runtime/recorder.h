// What happens in a job, as rows of a measured run.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/ledger/program_memory.h"
#include "core/run/recording_sink.h"
#include "runtime/device.h"

namespace foregather::runtime {

enum class HostCall : std::uint8_t {
  launch,
  event_record,
  stream_wait_event,
  event_synchronize,
  stream_synchronize,
  device_synchronize,
  thread_wait,
};

/// Rows are made by the threads to which things happen, under one lock; a thread of its own hands
/// them to the sink and commits them once in a flush interval, so that a job that is killed loses
/// no more than that. Each rank is a class of its own. The init section is not recorded.
///
/// Steps numbers are those of launches: 1 is the first step, which is number 0 of the run.
class Recorder {
 public:
  /// Everything is borrowed. Rows of ranks, streams, communicators and threads are added at once.
  /// `backend` begins the names of kernels: equal names are equal work on equal devices.
  Recorder(const Job& job, run::RecordingSink& sink, Ns flush_interval, std::string_view backend);
  ~Recorder();

  void begin_step(std::uint32_t rank, std::uint32_t step, Ns time);
  /// The host has issued the step, so many ops.
  void end_step(std::uint32_t rank, std::uint32_t step, Ns time, std::uint32_t launched,
                ledger::MemoryStep memory);
  run::HostCallRow call(std::uint32_t rank, std::uint32_t thread, HostCall kind, Ns start, Ns end);
  /// A stream waits for what was recorded on another.
  void wait(std::uint32_t rank, StreamId stream, run::HostCallRow call, run::HostCallRow recorded,
            StreamId awaited);
  void done(const OpDone& op);
  void out_of_memory(std::uint32_t rank, StorageId storage, std::optional<OpId> next, Ns time);

  /// Completes what is complete and commits everything. Of the steps that all ranks finished after
  /// the first, the one whose time is the median becomes the steady one. Nothing is recorded
  /// afterwards.
  Status finish();
  /// Ops recorded so far: whether the job gets on.
  std::int64_t ops() const;
  /// Time of the median step; absent: no step after the first was finished.
  std::optional<Ns> median_step_time() const { return median_; }
  /// The steps that the rank finished, in order. After finish().
  std::vector<run::StepInfo> finished(std::uint32_t rank) const;

 private:
  struct Rows {
    std::vector<run::StepInfo> steps;
    std::vector<run::StepRow> changed;
    std::vector<run::HostCallRecord> calls;
    std::vector<run::StreamWaitRecord> waits;
    std::vector<run::OpRecord> ops;
    std::vector<run::CollectiveRecord> collectives;
    std::vector<run::BindingRecord> bindings;
    std::vector<run::SegmentRecord> segments;
    std::vector<run::MemoryRecord> memory;
    std::vector<run::CauseRecord> causes;
    std::vector<run::FailureRecord> failures;
  };
  /// A step whose ops have not all ended, or one of the last before.
  struct OpenStep {
    std::uint32_t step = 0;
    run::StepRow row;
    std::vector<run::OpRow> rows;  ///< by op of the program
    std::vector<bool> waits;       ///< by op of the program: done() knows it, and it has no row yet
    std::uint32_t launched = 0, ended = 0;
    bool is_issued = false, is_finished = false;
    ledger::MemoryStep memory;
  };
  struct Rank {
    const Program* program = nullptr;
    std::uint32_t first_stream = 0, first_thread = 0;
    std::deque<OpenStep> open;
    Ns last_end = 0;  ///< of the last finished step
    std::vector<run::StepRow> finished;
  };
  struct OpTexts {
    StringId scope, unit, source;
  };

  void add_tables(std::string_view backend);
  OpenStep* open_step(Rank& rank, std::uint32_t step);
  /// The op that bound it is to have its row first.
  bool awaits_row(const OpDone& event) const;
  void park(const OpDone& event);
  void record(const OpDone& event);
  void finish_steps(Rank& rank);
  void add_memory(const Rank& rank, const OpenStep& step);
  void choose_steady();
  void write_rows();
  Status flush();
  void work(Ns interval);

  const Job& job_;
  const Graph& graph_;
  run::RecordingSink& sink_;
  std::vector<OpTexts> texts_;          ///< by op
  std::vector<StringId> stream_names_;  ///< by stream of the run
  std::vector<StringId> storage_names_, storage_scopes_;
  std::vector<StringId> call_names_;
  std::vector<StringId> dtype_names_;
  std::vector<StringId> group_names_;  ///< by communicator

  mutable std::mutex mutex_;
  std::condition_variable stopping_;
  bool is_stopping_ = false;
  Rows pending_, writing_;
  std::vector<Rank> ranks_;
  std::vector<run::StepInfo> steps_;  ///< all, as known
  std::vector<OpDone> waiting_;       ///< for the row of the op that bound them
  std::size_t calls_ = 0, ops_ = 0;
  std::optional<Ns> median_;
  Status status_;
  std::thread writer_;
};

}  // namespace foregather::runtime
