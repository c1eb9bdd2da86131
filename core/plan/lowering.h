// What the parts of a lowering share: the graph under construction and how to append to it.
#pragma once

#include <array>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "core/ir/builder.h"
#include "core/plan/shard_layout.h"
#include "core/plan/tape.h"
#include "core/plan/workload.h"

namespace foregather::plan {

/// A storage with a tensor over all of it.
struct Buffer {
  StorageId storage;
  TensorId tensor;
  Bytes bytes = 0;
};

/// A name that many buffers have: interned when the first one is made.
class BufferName {
 public:
  explicit BufferName(std::string_view text) : text_(text) {}
  StringId in(StringTable& strings) {
    if (!id_) id_ = strings.intern(text_);
    return id_;
  }

 private:
  std::string_view text_;
  StringId id_;
};

/// Whom an op or a buffer belongs to.
struct Owner {
  ScopeId scope;
  UnitId unit;
};

/// An op of a strategy or an optimizer, as opposed to one of a tape.
struct Work {
  OpKind kind = OpKind::other;
  Role role = Role::other;
  StreamId stream;
  CostId cost;
  CommunicatorId communicator;
};

/// Collectives are launched on the stream that the calling code has selected (PyTorch ≥ 2.8;
/// before, on the process group's own stream with a wait on either side).
struct Lowering {
  Lowering(const Model& given_model, const Workload& given_workload, TiedUnits tied, Wrap wrap,
           FrozenParts frozen)
      : model(given_model),
        workload(given_workload),
        layout(shard_layout(given_model, wrap, tied, frozen)) {}

  const Model& model;
  const Workload& workload;
  ShardLayout layout;
  GraphBuilder builder;
  StreamId compute;  ///< PyTorch's default stream
  std::uint32_t main_thread = 0;
  std::uint32_t autograd_thread = 0;
  EventId join;                 ///< of wait_stream; recorded anew each time
  Owner root;                   ///< what belongs to no module
  std::vector<Owner> owners;    ///< of the layout's units
  std::vector<Buffer> buffers;  ///< the model's, in its order: there once init is written
  // Where the schedule is being written.
  std::uint32_t thread = 0;
  Section section = Section::init;
  Phase phase = Phase::other;
  std::uint16_t micro_batch = 0;
  bool first_step = false;

  const Tape& tape_of(std::uint32_t module) const {
    return model.tapes[model.modules[module].tape];
  }
  std::uint32_t modules() const { return static_cast<std::uint32_t>(model.modules.size()); }
  bool is_last_micro_batch() const { return micro_batch + 1 == workload.train.grad_accum; }
  /// Do gradients accumulate without communication in this micro-batch?
  bool is_unsynchronised() const { return workload.train.no_sync && !is_last_micro_batch(); }

  Buffer buffer(std::int64_t elements, DType dtype, StringId name, Cause cause, const Owner& owner);
  Buffer buffer(std::int64_t elements, DType dtype, std::string_view name, Cause cause,
                const Owner& owner) {
    return buffer(elements, dtype, id_of(name), cause, owner);
  }

  Buffer buffer(std::int64_t elements, DType dtype, BufferName& name, Cause cause,
                const Owner& owner) {
    return buffer(elements, dtype, name.in(builder.graph().strings), cause, owner);
  }

  void alloc(const Buffer& buffer, StreamId stream) {
    if (buffer.bytes > 0) builder.alloc(buffer.storage, stream);
  }
  void free(const Buffer& buffer) {
    if (buffer.bytes > 0) builder.free(buffer.storage);
  }
  OpId launch(const Work& work, const Owner& owner, std::span<const AccessedTensor> accesses);
  OpId launch(const Work& work, const Owner& owner,
              std::initializer_list<AccessedTensor> accesses) {
    return launch(work, owner, std::span(accesses.begin(), accesses.size()));
  }
  /// What is enqueued on `waiter` from now on runs after all that is enqueued on `other`.
  void wait_stream(StreamId waiter, StreamId other);

  /// The selected thread and section.
  void select(std::uint32_t host_thread, Section in) {
    thread = host_thread;
    section = in;
    builder.select(host_thread, in);
  }

  CostId copy_cost(OpKind kind, DType dtype, Bytes read, Bytes written, std::uint16_t kernels = 1);
  CostId collective_cost(OpKind kind, DType dtype, Bytes message, GroupId group);

  /// The string's id; cheap for the few names, each at one place, that thousands of buffers have.
  StringId id_of(std::string_view name);

 private:
  std::array<StringId, 64> names_;  ///< by place
};

inline AccessedTensor reads(const Buffer& buffer, Bytes offset, Bytes bytes) {
  return {buffer.tensor, Access::read, offset, bytes};
}
inline AccessedTensor writes(const Buffer& buffer, Bytes offset, Bytes bytes) {
  return {buffer.tensor, Access::write, offset, bytes};
}
inline AccessedTensor reads(const Buffer& buffer) { return reads(buffer, 0, buffer.bytes); }
inline AccessedTensor writes(const Buffer& buffer) { return writes(buffer, 0, buffer.bytes); }
inline AccessedTensor updates(const Buffer& buffer) {
  return {buffer.tensor, Access::accumulate, 0, buffer.bytes};
}

/// Whole buffers, one after the other.
void append_reads(std::vector<AccessedTensor>& accesses, std::span<const Buffer> buffers);
void append_writes(std::vector<AccessedTensor>& accesses, std::span<const Buffer> buffers);

/// Makes a storage part of host memory; returns the buffer.
Buffer on_host(Lowering& lowering, const Buffer& buffer);
/// A view of `elements` of the buffer's storage, from element `first` of it.
Buffer slice(Lowering& lowering, const Buffer& buffer, std::int64_t first, std::int64_t elements,
             DType dtype);

}  // namespace foregather::plan
