// The device of one rank on a GPU, which it may share with others.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/cuda/memory.cuh"
#include "runtime/cuda/rooms.cuh"
#include "runtime/cuda/work.cuh"
#include "runtime/device.h"

namespace foregather::runtime::cuda {

/// A communicator as one rank sees it.
struct Seat {
  Room* room = nullptr;
  std::uint32_t member = 0;
};

/// What all devices of a process share.
struct CudaJob {
  Job job;
  std::atomic<bool> failed = false;
  std::mutex mutex;  ///< of the report
  BackendReport report;
};

/// A stream of the schedule is a CUDA stream and a ring of what is enqueued on it, each item with
/// an event behind it, ops with one before them too. A mark is a place in that ring. Collectives of
/// one communicator take turns in the order of their launches, whatever their streams.
///
/// Durations are from event to event: what the host takes to enqueue an op's kernel counts where
/// the stream was idle.
class CudaDevice final : public Device {
 public:
  /// `places`: items that a stream holds before the host must wait. Everything is borrowed.
  static Result<std::unique_ptr<CudaDevice>> create(CudaJob& shared, std::uint32_t rank, Gpu& gpu,
                                                    bool is_shared, Bytes capacity,
                                                    std::uint64_t places, std::vector<Seat> seats,
                                                    std::vector<WorkPlan> plans,
                                                    const Scratch& scratch);
  ~CudaDevice() override;

  alloc::DeviceMemory& memory() override { return *memory_; }
  void fill(StreamId stream, std::byte* to, Bytes bytes, DType type, std::uint64_t seed) override;
  Mark launch(const Launch& launch) override;
  Mark mark(StreamId stream) override;
  void wait(StreamId stream, Mark mark) override;
  bool has_happened(Mark mark) override;
  void synchronize(Mark mark) override;

  // By the thread that reports.
  /// Reports what has ended; false if nothing has.
  bool report();
  bool is_idle();
  /// Keys of what streams have not ended, the oldest of each; for people.
  std::string awaited();
  /// Lets host threads go.
  void wake();

 private:
  struct Item {
    OpId op;  ///< absent: a wait or a fill
    std::uint32_t step = 0;
    std::uint64_t ticket = 0;  ///< of a collective
    Ns issued = 0;
    run::HostCallRow call;
    std::vector<Mark> marks;
    cudaEvent_t start = nullptr, end = nullptr;
    Bytes checked_bytes = 0;
    bool has_arrived = false;  ///< by the thread that reports
  };
  /// When what is before a place of the queue had ended, and by which op.
  struct Bound {
    Ns time = 0;
    run::BoundReason reason = run::BoundReason::start;
    OpId by;
  };
  struct Queue {
    std::mutex mutex;
    std::condition_variable reported;
    std::vector<Item> ring;
    std::uint64_t tail = 0;  ///< items enqueued
    std::uint64_t head = 0;  ///< items reported
    cudaStream_t stream = nullptr;
    void* workspace = nullptr;      ///< of products
    std::int64_t* wrong = nullptr;  ///< by place; memory of the host that the GPU sees
    std::unique_ptr<Worker> worker;
    // By the thread that reports.
    std::vector<Bound> ended;  ///< by place
    Bound before;
  };
  struct Turn {
    std::mutex mutex;  ///< of what the hosts use
    std::uint64_t launched = 0;
    Mark last;
    // By the thread that reports.
    std::uint64_t ended = 0;
    Ns last_end = 0;
    OpId last_op;
  };
  struct Staged {
    std::byte* in = nullptr;
    std::byte* out = nullptr;
  };

  CudaDevice(CudaJob& shared, std::uint32_t rank, Gpu& gpu, std::vector<Seat> seats,
             std::vector<WorkPlan> plans);
  Status prepare(bool is_shared, Bytes capacity, std::uint64_t places, const Scratch& scratch);
  Status prepare_queue(Queue& queue, const Stream& stream, bool has_products, std::uint64_t places,
                       const Scratch& scratch);
  Status prepare_collectives();
  Item* place(Queue& queue);
  Mark publish(StreamId stream);
  void order(Calls& calls, cudaStream_t stream, Mark mark);
  bool collect(Calls& calls, const Op& op, const Launch& launch, Queue& queue,
               std::uint64_t ticket);
  std::string key_of(OpId op, std::uint32_t step) const;
  void fail_op(OpId op, std::uint32_t step, const Error& error);
  bool has_ended(cudaEvent_t event);
  bool report_next(Queue& queue);
  bool arrive(Item& item);
  bool bound_of(const Item& item, Bound& bound);
  std::optional<OpDone> done_of(const Item& item, const Bound& bound);
  void note_checks(const Queue& queue, const Item& item);
  template <class T>
  std::optional<T> value_of(Result<T> result);

  CudaJob& shared_;
  const Graph& graph_;
  const Program& program_;
  std::uint32_t rank_;
  Gpu& gpu_;
  std::vector<Seat> seats_;  ///< by communicator
  std::vector<Staged> staged_;
  std::vector<WorkPlan> plans_;              ///< by op of the program
  std::vector<CollectivePlan> collectives_;  ///< by op of the program
  std::vector<std::unique_ptr<Turn>> turns_;
  std::vector<std::unique_ptr<Queue>> queues_;
  std::unique_ptr<GpuMemory> memory_;
};

}  // namespace foregather::runtime::cuda
