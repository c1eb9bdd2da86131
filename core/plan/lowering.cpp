#include "core/plan/lowering.h"

#include <functional>

namespace foregather::plan {

Buffer Lowering::buffer(std::int64_t elements, DType dtype, StringId name, Cause cause,
                        const Owner& owner) {
  const Bytes bytes = elements * size_of(dtype);
  const StorageId id =
      builder.storage({bytes, name, owner.scope, owner.unit, cause, /*on_host=*/false});
  return {id, builder.flat(id, dtype, elements), bytes};
}

StringId Lowering::id_of(std::string_view name) {
  StringId& latest = names_[std::hash<const void*>{}(name.data()) / 8 % names_.size()];
  StringTable& strings = builder.graph().strings;
  if (!latest || strings.text(latest) != name) latest = strings.intern(name);
  return latest;
}

OpId Lowering::launch(const Work& work, const Owner& owner,
                      std::span<const AccessedTensor> accesses) {
  const OpId op = builder.op({.kind = work.kind,
                              .role = work.role,
                              .phase = phase,
                              .micro_batch = micro_batch,
                              .scope = owner.scope,
                              .unit = owner.unit,
                              .stream = work.stream,
                              .communicator = work.communicator,
                              .cost = work.cost},
                             accesses);
  builder.launch(op);
  return op;
}

void Lowering::wait_stream(StreamId waiter, StreamId other) {
  builder.record(join, other);
  builder.wait(waiter, join);
}

CostId Lowering::copy_cost(OpKind kind, DType dtype, Bytes read, Bytes written,
                           std::uint16_t kernels) {
  Cost cost;
  cost.kind = kind;
  cost.dtype = dtype;
  cost.bytes_read = read;
  cost.bytes_written = written;
  cost.kernels = kernels;
  if (kind == OpKind::cast && dtype == DType::f32 && read < written && kernels == 1)
    cost.m = written / size_of(dtype);
  return builder.cost(cost);
}

CostId Lowering::collective_cost(OpKind kind, DType dtype, Bytes message, GroupId group) {
  const Group& members = builder.graph().at(group);
  const Bytes ranks = members.ranks.count;
  Cost cost;
  cost.kind = kind;
  cost.dtype = dtype;
  cost.message_bytes = message;
  cost.group = group;
  cost.bytes_read = kind == OpKind::all_gather ? message / ranks : message;
  cost.bytes_written = kind == OpKind::reduce_scatter ? message / ranks : message;
  return builder.cost(cost);
}

void append_reads(std::vector<AccessedTensor>& accesses, std::span<const Buffer> buffers) {
  for (const Buffer& buffer : buffers) {
    const AccessedTensor access = reads(buffer);
    accesses.push_back(access);
  }
}

void append_writes(std::vector<AccessedTensor>& accesses, std::span<const Buffer> buffers) {
  for (const Buffer& buffer : buffers) {
    const AccessedTensor access = writes(buffer);
    accesses.push_back(access);
  }
}

Buffer on_host(Lowering& lowering, const Buffer& buffer) {
  lowering.builder.graph().storages[buffer.storage.row()].on_host = true;
  return buffer;
}

Buffer slice(Lowering& lowering, const Buffer& buffer, std::int64_t first, std::int64_t elements,
             DType dtype) {
  const Bytes size = size_of(dtype);
  const TensorId view = lowering.builder.flat(buffer.storage, dtype, elements, first * size);
  return {buffer.storage, view, elements * size};
}

}  // namespace foregather::plan
