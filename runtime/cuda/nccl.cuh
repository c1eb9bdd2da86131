// NCCL, where it can be opened. Its interface is declared here: it has not changed since NCCL 2.14,
// and building needs no NCCL.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "core/base/result.h"
#include "core/ir/kinds.h"
#include "runtime/cuda/libraries.h"

namespace foregather::runtime::cuda {

struct NcclCommunicator;  ///< NCCL's own
using NcclId = std::array<char, 128>;

/// NCCL's functions. Errors of all calls are NCCL's own words.
class Nccl {
 public:
  /// Null: none, or older than 2.19; `why` says which.
  static std::unique_ptr<Nccl> open(std::string& why);

  /// "NCCL 2.28.9".
  const std::string& name() const { return name_; }
  bool has_8_bit_floats() const { return version_ >= 22400; }

  Result<NcclId> make_id() const;
  /// Calls between them happen together: those that a thread makes for several ranks.
  Status begin_group() const;
  Status end_group() const;
  /// On the calling thread's GPU; to be called for all ranks, in a group if by one thread.
  Status join(NcclCommunicator*& communicator, int ranks, const NcclId& id, int rank) const;
  /// Gives up what is under way, on all streams. From any thread.
  void abort(NcclCommunicator* communicator) const;
  void leave(NcclCommunicator* communicator) const;
  /// An error that came up since.
  Status check(NcclCommunicator* communicator) const;

  /// Enqueues a collective. `elements`: of one rank's share where there are shares, else of the
  /// message. send_recv is to the next rank and from the one before.
  Status enqueue(OpKind kind, const void* in, void* out, std::int64_t elements, DType type,
                 NcclCommunicator* communicator, int rank, int ranks, cudaStream_t stream) const;

 private:
  using Code = int;  ///< ncclResult_t; 0 is success
  using Communicator = NcclCommunicator*;
  struct Entries {
    Library library;
    Code (*version)(int*) = nullptr;
    Code (*make_id)(NcclId*) = nullptr;
    Code (*join)(Communicator*, int, NcclId, int) = nullptr;
    Code (*destroy)(Communicator) = nullptr;
    Code (*abort)(Communicator) = nullptr;
    Code (*async_error)(Communicator, Code*) = nullptr;
    const char* (*text)(Code) = nullptr;
    const char* (*last_error)(Communicator) = nullptr;
    Code (*begin)() = nullptr;
    Code (*end)() = nullptr;
    Code (*all_gather)(const void*, void*, std::size_t, int, Communicator, cudaStream_t) = nullptr;
    Code (*reduce_scatter)(const void*, void*, std::size_t, int, int, Communicator,
                           cudaStream_t) = nullptr;
    Code (*all_reduce)(const void*, void*, std::size_t, int, int, Communicator,
                       cudaStream_t) = nullptr;
    Code (*broadcast)(const void*, void*, std::size_t, int, int, Communicator,
                      cudaStream_t) = nullptr;
    Code (*reduce)(const void*, void*, std::size_t, int, int, int, Communicator,
                   cudaStream_t) = nullptr;
    Code (*send)(const void*, std::size_t, int, int, Communicator, cudaStream_t) = nullptr;
    Code (*receive)(void*, std::size_t, int, int, Communicator, cudaStream_t) = nullptr;
  };
  Status status_of(Code code, const char* what) const;

  Entries nccl_;
  int version_ = 0;
  std::string name_;
};

}  // namespace foregather::runtime::cuda
