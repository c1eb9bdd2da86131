// One rank of a job: its host threads perform the program's actions on a device.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/ledger/program_memory.h"
#include "runtime/device.h"
#include "runtime/recorder.h"

namespace foregather::runtime {

/// Where the ranks of a job meet once, between init and the first step, so that time begins for all
/// of them together.
class StartLine {
 public:
  StartLine(std::size_t ranks, const std::atomic<bool>& stopped)
      : missing_(ranks), stopped_(stopped) {}
  void arrive();
  void wake();

 private:
  std::mutex mutex_;
  std::condition_variable all_here_;
  std::size_t missing_;
  const std::atomic<bool>& stopped_;
};

struct OutOfMemory {
  std::uint32_t rank = 0;  ///< row of Job::ranks
  StorageId storage;
  Bytes bytes = 0;
  std::optional<OpId> next;  ///< launched next
  bool in_first_step = false;
};

/// How a rank tells that the job ends early.
class RankEvents {
 public:
  virtual ~RankEvents() = default;
  virtual void out_of_memory(const OutOfMemory& failure) = 0;
  virtual void failed(Error error) = 0;
};

/// All host threads of the program are threads, and perform one section at a time. The allocator
/// and the slots of events are one for the rank, under a lock; buffers are whatever the allocator
/// says when an op is launched. A block under record_stream comes back when its events have really
/// happened.
class RankRun {
 public:
  RankRun(const Job& job, std::uint32_t rank, Device& device, const alloc::AllocConfig& config,
          std::uint32_t steps, Recorder& recorder, StartLine& line, RankEvents& events,
          const std::atomic<bool>& stopped);
  ~RankRun();

  void start();
  void join();
  /// Wakes host threads that wait for each other.
  void wake();

 private:
  struct Clock;
  struct Event {
    bool is_recorded = false;
    Mark mark;
    run::HostCallRow call;
  };
  struct Launched {
    std::uint32_t step = 0;  ///< + 1; 0: never
    Mark mark;
  };
  struct HostThread {
    std::thread thread;
    std::uint32_t performed = 0;  ///< actions of this section; guarded by mutex_
    std::vector<BoundAccess> accesses;
    std::vector<Mark> deps;
  };

  void run(std::uint32_t thread);
  bool begin_section(std::uint32_t step);
  void end_section(std::uint32_t step);
  bool perform(std::uint32_t thread, std::uint32_t step, const Action& action);
  bool launch(std::uint32_t thread, std::uint32_t step, OpId op);
  void bind(const Op& op, std::vector<BoundAccess>& accesses) const;
  bool find_deps(std::uint32_t step, const Op& op, std::vector<Mark>& deps);
  bool alloc(std::uint32_t thread, std::uint32_t step, const Action& action);
  void fill(std::uint32_t storage, StreamId stream);
  void synchronize(std::uint32_t thread, HostCall kind, std::span<const Mark> marks);

  const Job& job_;
  const Graph& graph_;
  const Program& program_;
  const RankClass& rank_class_;
  std::uint32_t rank_;
  Device& device_;
  std::uint32_t steps_;
  Recorder& recorder_;
  StartLine& line_;
  RankEvents& events_;
  const std::atomic<bool>& stopped_;

  std::vector<DType> dtype_of_;  ///< by storage of the program: of its first tensor
  std::vector<HostThread> threads_;
  std::mutex mutex_;  ///< of everything below, and of the allocator
  std::condition_variable progress_;
  std::unique_ptr<Clock> clock_;
  std::unique_ptr<ledger::ProgramMemory> memory_;
  std::vector<Event> slots_;
  std::vector<Launched> launched_;  ///< by op of the program
  std::uint32_t section_ = 0;       ///< that has begun
  std::uint32_t ended_ = 0;         ///< threads that have performed it
  std::uint32_t launches_ = 0;      ///< in this section
};

}  // namespace foregather::runtime
