// The device of one rank, played by threads: a worker for each stream.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/device.h"
#include "runtime/host/arena.h"
#include "runtime/host/kernels.h"
#include "runtime/host/meeting.h"

namespace foregather::runtime {

/// A communicator as one rank sees it.
struct Seat {
  MeetingRoom* room = nullptr;
  std::uint32_t member = 0;
};

/// What all devices of a job share.
struct HostJob {
  Job job;
  Rating rating;
  std::atomic<bool> failed = false;
  std::mutex mutex;  ///< of the report
  BackendReport report;
};

/// A stream is a queue that its worker performs in order; an event is a place in that queue.
/// Collectives of one communicator take turns in the order of their launches, whatever their
/// streams.
class HostDevice final : public Device {
 public:
  static Result<std::unique_ptr<HostDevice>> create(HostJob& shared, std::uint32_t rank,
                                                    std::vector<Seat> seats);
  ~HostDevice() override;

  alloc::DeviceMemory& memory() override { return *memory_; }
  void fill(StreamId stream, std::byte* to, Bytes bytes, DType type, std::uint64_t seed) override;
  Mark launch(const Launch& launch) override;
  Mark mark(StreamId stream) override;
  void wait(StreamId stream, Mark mark) override;
  bool has_happened(Mark mark) override;
  void synchronize(Mark mark) override;

  /// Lets all threads go; called when the job has failed.
  void wake();
  /// Performs what is queued, or nothing more after a failure, and ends the workers.
  void stop();

 private:
  /// Launches that a stream holds before the host must wait, as CUDA's.
  static constexpr std::uint64_t kPlaces = 1024;

  struct Item {
    OpId op;  ///< absent: a wait for `marks`
    std::uint32_t step = 0;
    std::uint64_t ticket = 0;  ///< of a collective
    Ns issued = 0;
    run::HostCallRow call;
    std::vector<BoundAccess> accesses;
    std::vector<Mark> marks;
    // Once performed: when what is before here had ended, and by which op.
    Ns end = 0;
    OpId by;
  };
  struct Stream {
    std::mutex mutex;
    std::condition_variable queued, performed;
    std::vector<Item> ring = std::vector<Item>(kPlaces);
    std::uint64_t tail = 0;  ///< items enqueued
    std::uint64_t head = 0;  ///< items performed
    bool is_stopping = false;
    bool has_left = false;  ///< its worker performs nothing more
    std::thread worker;
  };
  struct Turn {
    std::mutex mutex;
    std::condition_variable changed;
    std::uint64_t launched = 0, ended = 0;
    Ns last_end = 0;
    OpId last;
  };
  struct Bound {
    Ns time = 0;
    run::BoundReason reason = run::BoundReason::start;
    OpId by;
  };

  HostDevice(HostJob& shared, std::uint32_t rank, std::vector<Seat> seats);
  template <class Fill>
  Mark enqueue(StreamId stream, Fill&& fill);
  /// Returns when nothing that was enqueued before is at work.
  void finish_work();
  void run(std::uint32_t stream);
  void work(std::uint32_t stream);
  bool wait_for(Mark mark, Bound* bound);
  void perform(Item& item, Kernels& kernels, Bound bound);
  void compute(const Op& op, Item& item, Kernels& kernels);
  bool meet(const Op& op, Item& item, OpDone& done);
  void report_wrong(const Item& item, const std::string& wrong);
  void count_overrun(Ns overrun);

  HostJob& shared_;
  const Graph& graph_;
  const RankClass& rank_class_;
  const Program& program_;
  std::uint32_t rank_;
  std::vector<Seat> seats_;  ///< by communicator
  std::vector<std::unique_ptr<Turn>> turns_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::unique_ptr<Arena> memory_;
};

}  // namespace foregather::runtime
