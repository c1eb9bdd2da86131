#include "core/plan/ddp_buffers.h"

#include <algorithm>
#include <set>

#include "core/plan/ddp_buckets.h"

namespace foregather::plan {

BufferBroadcast::BufferBroadcast(Lowering& lowering, ProcessGroup group, StreamId communication)
    : lowering_(lowering), group_(group), communication_(communication) {
  std::set<DType> dtypes;
  for (const ModelBuffer& buffer : lowering.model.buffers) dtypes.insert(buffer.dtype);
  for (const DType dtype : dtypes) add_messages(dtype);
  std::ranges::sort(messages_, {}, [](const Message& message) { return message.rows.front(); });
}

void BufferBroadcast::add_messages(DType dtype) {
  std::vector<std::uint32_t> rows;
  std::vector<std::int64_t> sizes;
  for (const ModelBuffer& buffer : lowering_.model.buffers) {
    if (buffer.dtype == dtype) rows.push_back(static_cast<std::uint32_t>(sizes.size()));
    sizes.push_back(buffer.elements);
  }
  constexpr Bytes kLimit = 250 * MiB;
  BucketPlan plan = assign_buckets(rows, sizes, size_of(dtype), kLimit, kLimit);
  for (std::size_t b = 0; b < plan.members.size(); ++b) {
    Message message{std::move(plan.members[b]), dtype, {}, lowering_.builder.event()};
    message.flat = message.rows.size() == 1
                       ? lowering_.buffers[message.rows.front()]
                       : lowering_.buffer(plan.elements[b], dtype, "buffers",
                                          Cause::communication_buffer, lowering_.root);
    messages_.push_back(std::move(message));
  }
}

void BufferBroadcast::perform() {
  constexpr std::size_t kUnderWay = 2;
  for (std::size_t i = 0; i < messages_.size() + kUnderWay; ++i) {
    if (i >= kUnderWay) finish(messages_[i - kUnderWay]);
    if (i < messages_.size()) send(messages_[i]);
  }
}

void BufferBroadcast::send(const Message& message) {
  Lowering& low = lowering_;
  const Bytes bytes = message.flat.bytes;
  if (message.rows.size() > 1) {
    low.alloc(message.flat, low.compute);
    scratch_.assign({writes(message.flat)});
    for (const std::uint32_t row : message.rows) scratch_.push_back(reads(low.buffers[row]));
    low.launch({OpKind::copy,
                Role::copy_in,
                low.compute,
                low.copy_cost(OpKind::copy, message.dtype, bytes, bytes),
                {}},
               low.root, scratch_);
  }
  low.wait_stream(communication_, low.compute);
  scratch_.assign({updates(message.flat)});
  low.launch({OpKind::broadcast, Role::other, communication_,
              low.collective_cost(OpKind::broadcast, message.dtype, bytes, group_.group),
              group_.communicator},
             low.root, scratch_);
  low.builder.record(message.was_sent, communication_);
}

void BufferBroadcast::finish(const Message& message) {
  Lowering& low = lowering_;
  low.builder.wait(low.compute, message.was_sent);
  if (message.rows.size() == 1) return;
  Bytes offset = 0;
  for (const std::uint32_t row : message.rows) {
    const Buffer& buffer = low.buffers[row];
    scratch_.assign({reads(message.flat, offset, buffer.bytes), writes(buffer)});
    low.launch({OpKind::copy,
                Role::copy_out,
                low.compute,
                low.copy_cost(OpKind::copy, message.dtype, buffer.bytes, buffer.bytes),
                {}},
               low.root, scratch_);
    offset += buffer.bytes;
  }
  low.free(message.flat);
}

}  // namespace foregather::plan
