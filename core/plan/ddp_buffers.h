// DDP's broadcast of what a model registers as buffers.
#pragma once

#include <vector>

#include "core/plan/lowering.h"
#include "core/plan/process_groups.h"

namespace foregather::plan {

/// Sends lowering.buffers from rank 0 to all, before a forward. Those of one dtype are one message
/// of at most about 250 MiB: several are laid side by side by one kernel, and copied back one by
/// one. Two messages are under way at most (torch/csrc/distributed/c10d/comm.cpp,
/// broadcast_coalesced; DistributedDataParallel.broadcast_bucket_size).
class BufferBroadcast {
 public:
  BufferBroadcast(Lowering& lowering, ProcessGroup group, StreamId communication);
  void perform();

 private:
  struct Message {
    std::vector<std::uint32_t> rows;  ///< of lowering.buffers
    DType dtype = DType::f32;
    Buffer flat;  ///< of a single buffer, itself
    EventId was_sent;
  };

  void add_messages(DType dtype);
  void send(const Message& message);
  void finish(const Message& message);

  Lowering& lowering_;
  ProcessGroup group_;
  StreamId communication_;
  std::vector<Message> messages_;
  std::vector<AccessedTensor> scratch_;
};

}  // namespace foregather::plan
