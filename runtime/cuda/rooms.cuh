// Where ranks meet: a communicator's instance on this process's GPUs.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/ir/graph.h"
#include "runtime/cuda/calls.cuh"
#include "runtime/cuda/gpu.cuh"
#include "runtime/cuda/kernels.cuh"
#include "runtime/cuda/nccl.cuh"
#include "runtime/groups.h"

namespace foregather::runtime::cuda {

/// Where a rank's part of a collective lies.
struct Buffer {
  enum class Kind : std::uint8_t {
    access,  ///< of the op: sent or received as it lies there
    staged,  ///< its elements are copied from or to the op's tensors
    own,     ///< the schedule does not say: memory of the runtime's own
  };
  Kind kind = Kind::own;
  std::uint32_t access = 0;
};

/// How a rank takes part in a collective, as the schedule alone says.
struct CollectivePlan {
  Bytes sent = 0, received = 0;  ///< by a rank, in whole elements
  std::int64_t elements = 0;     ///< of a rank's share where there are shares, else of the message
  Buffer in, out;
  bool in_is_written = false;  ///< staged from what the op writes: it works in place
  bool is_bound = false;       ///< its tensors are sent and received
};

/// For an op of a rank at `position` of its group. In and out may only overlap as both NCCL and
/// ranks that read each other's memory allow: an all-gather whose share is where it will be.
CollectivePlan plan_collective(const Graph& graph, const Op& op, std::uint32_t group_size,
                               std::uint32_t position);

/// The collectives of one instance of a communicator, one after the other.
///
/// On one GPU: each rank's stream publishes where its buffer lies and that it has arrived (the
/// GPU's front end writes and waits for these words: no processor is held and no host thread
/// waits), waits for the others, takes what it needs out of their buffers, says that it is done,
/// and waits until all are, so that nobody overwrites what others still read. With NCCL: its own
/// collectives.
class Room {
 public:
  /// All of `members`, rows of the job's ranks, are in this process, on that GPU.
  static Result<std::unique_ptr<Room>> on_one_gpu(Members members, Gpu& gpu);
  /// `communicators`: by member; those of other processes are null.
  Room(Members members, const Nccl& nccl, std::vector<NcclCommunicator*> communicators);
  ~Room();

  struct Part {
    OpKind kind = OpKind::all_gather;
    DType type = DType::f32;
    const CollectivePlan* plan = nullptr;
    std::uint32_t member = 0;
    std::uint64_t ticket = 0;  ///< collectives before it
    const void* in = nullptr;
    void* out = nullptr;
    std::int64_t* wrong = nullptr;  ///< where the result is checked; null: it is not
  };
  /// True if the result will be checked.
  bool enqueue(Calls& calls, const Part& part, cudaStream_t stream);
  const Members& members() const { return members_; }

  // By the thread that reports.
  /// Member's part began; at most one collective ahead of any other member.
  void arrived(std::uint32_t member, std::uint64_t ticket, OpId op, Ns time);
  struct Arrivals {
    Ns last = 0;
    std::uint32_t member = 0;
    OpId op;
  };
  /// Nothing until all members that are in this process have arrived.
  std::optional<Arrivals> arrivals(std::uint64_t ticket) const;

  /// Lets everything go that waits on the GPU; again and again. From any thread.
  void abandon();
  Status check() const;

  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

 private:
  explicit Room(Members members) : members_(std::move(members)) {}
  bool enqueue_pull(Calls& calls, const Part& part, cudaStream_t stream);
  void signal_and_wait(Calls& calls, const std::uint32_t* flags, const Part& part,
                       cudaStream_t stream) const;

  Members members_;
  std::uint32_t present_ = 0;  ///< members that are in this process
  // On one GPU.
  Gpu* gpu_ = nullptr;
  const void** table_ = nullptr;       ///< on the GPU: by member, its buffer
  std::uint32_t* arrived_ = nullptr;   ///< …, collectives begun
  std::uint32_t* departed_ = nullptr;  ///< …, and ended
  // With NCCL.
  const Nccl* nccl_ = nullptr;
  std::vector<NcclCommunicator*> communicators_;
  std::atomic<bool> is_aborted_ = false;

  struct Meeting {
    std::uint64_t ticket = 0;
    std::uint32_t count = 0;
    Arrivals arrivals;
  };
  std::array<Meeting, 2> meetings_;
};

}  // namespace foregather::runtime::cuda
