// The schedule graph: what a training step IS. Tables of things (tensors, storages, units, ops, …)
// plus programs of small actions that host threads perform. See docs/decisions/0001.
//
// Everything is a flat array indexed by a typed id; a row never owns heap memory. Times are not
// here: an op names a row of `costs`, and a CostTable beside the graph prices those rows.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "core/base/ids.h"
#include "core/base/strings.h"
#include "core/base/units.h"
#include "core/ir/kinds.h"

namespace foregather {

using StorageId = Id<struct StorageTag>;
using TensorId = Id<struct TensorTag>;
using ScopeId = Id<struct ScopeTag>;
using UnitId = Id<struct UnitTag>;
using GroupId = Id<struct GroupTag>;
using CommunicatorId = Id<struct CommunicatorTag>;
using CostId = Id<struct CostTag>;
using OpId = Id<struct OpTag>;
using ProgramId = Id<struct ProgramTag>;
using EventId = Id<struct EventTag>;
using StreamId = Id<struct StreamTag>;  ///< Row of Program::streams.

/// Consecutive rows of a pool or table.
struct Range {
  std::uint32_t first = 0;
  std::uint32_t count = 0;

  constexpr std::uint32_t end() const { return first + count; }
  constexpr bool contains(std::uint32_t row) const { return row - first < count; }
  friend bool operator==(Range, Range) = default;
};

/// A slot for device memory: an alloc action binds it to an address, a free unbinds it, the next
/// execution binds it anew. Never bound twice at one time.
struct Storage {
  Bytes bytes = 0;  ///< as requested from the allocator, before its rounding
  StringId name;    ///< what it holds, for the person who asks who holds the bytes
  ScopeId scope;
  UnitId unit;
  Cause cause = Cause::temporary;
  /// Lives outside the caching allocator's view of a step (host memory, borrowed buffers).
  bool on_host = false;
  friend bool operator==(const Storage&, const Storage&) = default;
};

/// A view of a storage.
struct Tensor {
  StorageId storage;
  Bytes offset = 0;  ///< of the first element in the storage
  Range shape;       ///< rows of Graph::dims, outermost first; empty for a scalar
  DType dtype = DType::f32;
  friend bool operator==(const Tensor&, const Tensor&) = default;
};

/// A module path such as "layers.3.attn"; the root is "".
struct Scope {
  StringId name;
  friend bool operator==(const Scope&, const Scope&) = default;
};

/// What happens to a unit's unsharded parameters after its forward.
enum class Reshard : std::uint8_t { never, after_forward, after_backward };

/// A shard group of parameters: an FSDP unit, a ZeRO bucket, a DDP bucket.
struct Unit {
  ScopeId scope;
  GroupId group;                     ///< ranks that share the parameters
  std::int64_t parameters = 0;       ///< elements that the model has, unpadded
  std::int64_t padded_elements = 0;  ///< elements after padding, over all shards
  DType stored = DType::f32;         ///< of the shard
  DType gathered = DType::f32;       ///< of the unsharded parameters
  DType reduced = DType::f32;        ///< of the gradient reduction
  Reshard reshard = Reshard::after_forward;
  friend bool operator==(const Unit&, const Unit&) = default;
};

/// A set of ranks. When `instances` > 1 the job is partitioned into that many like groups (the
/// shard groups of hybrid sharding) and `ranks` lists the first; a rank means its own one.
struct Group {
  StringId name;
  Range ranks;  ///< rows of Graph::rank_lists
  std::uint32_t instances = 1;
  std::uint32_t nodes = 1;  ///< that one instance spans
  friend bool operator==(const Group&, const Group&) = default;
};

/// An in-order queue of collectives over a group, whatever their streams (one NCCL communicator).
struct Communicator {
  StringId name;
  GroupId group;
  friend bool operator==(const Communicator&, const Communicator&) = default;
};

/// A distinct input to the cost model. Equal work shares a row.
struct Cost {
  OpKind kind = OpKind::other;
  DType dtype = DType::f32;  ///< that the arithmetic or the wire uses
  bool is_fixed = false;     ///< `fixed_time` is the duration (recorded, or given by the schedule)
  /// Launches that this op stands for; 0: it `is_fixed`, and host_delay actions have the host's
  /// part.
  std::uint16_t kernels = 1;
  std::uint16_t host_ops = 1;  ///< framework ops that the host dispatches for it
  std::int64_t flops = 0;      ///< multiply and add count as two
  Bytes bytes_read = 0;        ///< from device memory
  Bytes bytes_written = 0;
  /// GEMM: batch × (m×k)·(k×n). Attention: batch = batch·heads, m = query rows, n = key rows,
  /// k = head dimension. Copy by one kernel that cuts its sources into equal chunks (PyTorch's
  /// chunk_cat): batch = chunks. Elementwise, other copies: m = elements that kernels find one
  /// by one, as operands are strided or broadcast; of a cast the elements that it widens; 0: none.
  /// Otherwise 0.
  std::int64_t m = 0, n = 0, k = 0, batch = 0;
  /// Collective: NCCL's size, that is the whole gathered (all-gather) or unreduced
  /// (reduce-scatter) buffer, the message otherwise.
  Bytes message_bytes = 0;
  GroupId group;
  Ns fixed_time = 0;
  /// Only if `is_fixed`: the op starts no sooner than that behind its launch, and behind the end of
  /// the last op that it waits for (latencies, and what a recording does not explain). Contention
  /// is part of such times.
  Ns launch_lead = 0, lead = 0;
  /// Only of a collective that `is_fixed`: what passes between the arrival of the last rank that
  /// the schedule has and the transfer, for the ranks that it does not have.
  Ns lateness = 0;
  /// Only if `is_fixed`: the duration that ops like it have where it was recorded; absent: not
  /// known.
  std::optional<Ns> usual_time;
  friend bool operator==(const Cost&, const Cost&) = default;
};

/// Part of a tensor that an op touches.
struct AccessedTensor {
  TensorId tensor;
  Access mode = Access::read;
  Bytes offset = 0;  ///< from the tensor's start
  Bytes bytes = 0;
  friend bool operator==(const AccessedTensor&, const AccessedTensor&) = default;
};

/// A piece of device work on one stream, launched at most once in an execution of a section (the
/// first step and the steady step share most ops). With rank and step it is named by its op_key:
/// (rank, step, micro_batch, scope, phase, kind, ordinal).
struct Op {
  OpKind kind = OpKind::other;
  Role role = Role::other;
  Phase phase = Phase::other;
  std::uint16_t micro_batch = 0;
  std::uint32_t ordinal = 0;  ///< among the ops that share the rest of the key
  ScopeId scope;
  UnitId unit;
  StreamId stream;
  CommunicatorId communicator;  ///< of a collective
  std::uint32_t sequence = 0;   ///< of a collective on its communicator, within the program
  CostId cost;
  Range accesses;  ///< rows of Graph::accesses
  Range deps;      ///< rows of Graph::op_lists: ops that must end first (DAG formats)
  /// Rows of Graph::op_lists: what was fused, bucketed or recomputed into this. Those of a fused op
  /// that nothing launches are its parts, in an order that they can run in.
  Range origins;
  friend bool operator==(const Op&, const Op&) = default;
};

enum class ActionKind : std::uint32_t {
  launch,            ///< op a on its stream
  alloc,             ///< storage a, owned by `stream`'s pool
  free,              ///< storage a
  release,           ///< tensor a: its storage is freed once all its tensors are released
  record_stream,     ///< storage a is used on `stream`
  record,            ///< event a after the work enqueued so far on `stream`
  wait,              ///< `stream` waits for event a; a no-op if it was never recorded
  host_wait_event,   ///< this thread waits until event a has happened; a no-op as with `wait`
  host_wait_stream,  ///< … until `stream` is idle
  host_wait_device,  ///< … until all streams are idle
  host_wait_action,  ///< … until thread a has performed action b of the same section execution
  host_delay,        ///< host work of a nanoseconds
  empty_cache,       ///< the allocator returns its cached segments
  mark,              ///< micro-batch a enters phase b; no cost
};

/// One step of a host thread. What a and b mean depends on the kind, see above.
struct Action {
  ActionKind kind = ActionKind::mark;
  StreamId stream;
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  friend bool operator==(const Action&, const Action&) = default;
};
static_assert(sizeof(Action) == 16 && std::has_unique_object_representations_v<Action>);

/// `init` runs once, before time counts. `first` is the whole first step (it may create optimizer
/// states). `body` is a steady step and repeats. Slots bound at the end of one execution are still
/// bound in the next.
enum class Section : std::uint8_t { init, first, body };
inline constexpr std::size_t kSections = 3;

/// A host thread; all threads of a program perform the same section at one time, each at its own
/// pace.
struct HostThread {
  StringId name;
  std::array<std::vector<Action>, kSections> sections;

  std::span<const Action> actions(Section section) const {
    return sections[static_cast<std::size_t>(section)];
  }
  friend bool operator==(const HostThread&, const HostThread&) = default;
};

struct Stream {
  StringId name;
  std::int32_t priority = 0;  ///< CUDA's: lower is more urgent
  friend bool operator==(const Stream&, const Stream&) = default;
};

/// What one rank does. Its ops, storages and events are consecutive rows, used by no other program.
struct Program {
  StringId name;
  std::vector<Stream> streams;
  std::vector<HostThread> threads;
  Range ops;
  Range storages;
  Range events;  ///< events have no table: an EventId is a slot number
  friend bool operator==(const Program&, const Program&) = default;
};

/// Ranks that do the same at the same time: simulated once. A straggler is a class of its own that
/// shares the program.
struct RankClass {
  StringId name;
  ProgramId program;
  Range ranks;                                 ///< rows of Graph::rank_lists
  std::uint32_t hardware = 0;                  ///< row of the job's hardware list
  std::int32_t compute_scale_ppm = 1'000'000;  ///< durations of compute × this / 10^6
  Ns start_delay = 0;  ///< before the first action of each thread, in each step
  friend bool operator==(const RankClass&, const RankClass&) = default;
};

/// See the top of the file. Built by GraphBuilder, checked by validate().
struct Graph {
  StringTable strings;
  std::vector<std::int64_t> dims;
  std::vector<std::uint32_t> rank_lists;
  std::vector<OpId> op_lists;
  std::vector<AccessedTensor> accesses;

  std::vector<Storage> storages;
  std::vector<Tensor> tensors;
  std::vector<Scope> scopes;
  std::vector<Unit> units;
  std::vector<Group> groups;
  std::vector<Communicator> communicators;
  std::vector<Cost> costs;
  std::vector<Op> ops;
  std::vector<Program> programs;
  std::vector<RankClass> classes;

  std::uint32_t world_size = 1;
  std::int64_t parameters = 0;                 ///< of the model, each storage counted once
  std::int64_t tokens_per_rank_step = 0;       ///< 0 when it is not a language model
  std::int64_t model_flops_per_rank_step = 0;  ///< what MFU counts: no recomputation

  const Storage& at(StorageId id) const { return storages[id.row()]; }
  const Tensor& at(TensorId id) const { return tensors[id.row()]; }
  const Scope& at(ScopeId id) const { return scopes[id.row()]; }
  const Unit& at(UnitId id) const { return units[id.row()]; }
  const Group& at(GroupId id) const { return groups[id.row()]; }
  const Communicator& at(CommunicatorId id) const { return communicators[id.row()]; }
  const Cost& at(CostId id) const { return costs[id.row()]; }
  const Op& at(OpId id) const { return ops[id.row()]; }
  const Program& at(ProgramId id) const { return programs[id.row()]; }

  std::string_view text(StringId id) const { return strings.text(id); }
  std::string_view scope_name(ScopeId id) const { return id ? text(at(id).name) : ""; }
  std::span<const AccessedTensor> accesses_of(const Op& op) const {
    return std::span(accesses).subspan(op.accesses.first, op.accesses.count);
  }
  std::span<const OpId> deps_of(const Op& op) const {
    return std::span(op_lists).subspan(op.deps.first, op.deps.count);
  }
  std::span<const OpId> origins_of(const Op& op) const {
    return std::span(op_lists).subspan(op.origins.first, op.origins.count);
  }
  std::span<const std::uint32_t> ranks_of(Range ranks) const {
    return std::span(rank_lists).subspan(ranks.first, ranks.count);
  }
};

}  // namespace foregather
