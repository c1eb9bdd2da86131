// The rows of a run. One shape for predicted and measured: they differ by RunInfo::kind alone.
// Times are integer nanoseconds on the run's own clock, sizes integer bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/base/strings.h"
#include "core/base/units.h"
#include "core/ir/kinds.h"
#include "core/run/enums.h"
#include "core/run/event_counts.h"

namespace foregather::run {

using ClassRow = Id<struct RunClassTag>;
using StepRow = Id<struct RunStepTag>;
using StreamRow = Id<struct RunStreamTag>;
using CommunicatorRow = Id<struct RunCommunicatorTag>;
using OpRow = Id<struct RunOpTag>;
using ThreadRow = Id<struct RunThreadTag>;
using HostCallRow = Id<struct RunHostCallTag>;

/// About the run as a whole.
struct RunInfo {
  std::string name;
  RunKind kind = RunKind::predicted;
  std::string tool;         ///< program and version that made it
  std::string source;       ///< what was asked for: the path as given
  std::string source_text;  ///< its content, so that the run explains itself
  std::string options;      ///< what the command line changed, one a line
  /// Other files that a workload was read with: paths, and digests of what they held.
  std::vector<std::pair<std::string, std::string>> inputs;
  std::string hardware;
  std::string strategy;
  std::uint32_t world_size = 1;
  std::int64_t parameters = 0;  ///< of the model, each storage counted once
  std::int64_t tokens_per_rank_step = 0;
  std::int64_t model_flops_per_rank_step = 0;
  Bytes capacity = 0;           ///< of one device, 0: unknown
  Bytes outside_allocator = 0;  ///< held by the context and libraries
  RunState state = RunState::complete;
  std::vector<std::string> warnings;  ///< what its maker said of it
  EventCounts dropped;                ///< damaged events of its files by reason
  friend bool operator==(const RunInfo&, const RunInfo&) = default;
};

/// Ranks whose rows are the same: a predicted class, or one recorded rank.
struct ClassInfo {
  StringId name;
  std::vector<std::uint32_t> ranks;  ///< ascending, at least one
  friend bool operator==(const ClassInfo&, const ClassInfo&) = default;
};

struct StreamInfo {
  ClassRow rank_class;
  StringId name;
  std::int32_t priority = 0;  ///< CUDA's: lower is more urgent
  friend bool operator==(const StreamInfo&, const StreamInfo&) = default;
};

/// An in-order queue of collectives.
struct CommunicatorInfo {
  StringId name;
  std::uint32_t ranks = 1;  ///< of one group
  std::uint32_t nodes = 1;  ///< that one group spans
  friend bool operator==(const CommunicatorInfo&, const CommunicatorInfo&) = default;
};

/// One step of one class, and the memory peaks in it.
struct StepInfo {
  ClassRow rank_class;
  StepKind kind = StepKind::steady;
  std::uint32_t number = 0;  ///< the step of op keys
  /// The device end of the step before; of one that was recorded, or replays such a one: the
  /// first op's start (see compare::step_begins()).
  Ns begin = 0;
  Ns end = 0;       ///< the device end of this one
  Ns host_end = 0;  ///< the host has issued everything
  Bytes peak_requested = 0, peak_allocated = 0, peak_active = 0, peak_reserved = 0;
  OpRow peak_at;                 ///< launched next after `allocated` was largest; may be absent
  bool causes_inferred = false;  ///< its causes are concluded from times, not known
  friend bool operator==(const StepInfo&, const StepInfo&) = default;
};

/// One execution of one op.
struct OpRecord {
  StepRow step;
  StreamRow stream;
  std::uint16_t micro_batch = 0;
  std::uint32_t ordinal = 0;
  OpKind kind = OpKind::other;
  Role role = Role::other;
  Phase phase = Phase::other;
  BoundReason reason = BoundReason::start;
  StringId scope;
  StringId unit;                 ///< module path of its shard group, absent: none
  CommunicatorRow communicator;  ///< of a collective
  std::uint32_t sequence = 0;    ///< of a collective on its communicator
  Ns issued = 0;                 ///< the host had launched it; measured: its call began
  Ns start = 0;                  ///< it occupies its stream
  Ns transfer = 0;               ///< a collective: all ranks have arrived; else = start
  Ns end = 0;
  Ns alone = 0;        ///< a predicted op: how long it takes with nothing beside it; 0: unknown
  HostCallRow launch;  ///< a measured op: the call that launched it; absent: not recorded
  OpRow bound_by;  ///< the op that `reason` means, of the same run; absent: none, or a step before
  bool bound_by_previous_step = false;  ///< nothing in this step held it back
  StringId source;       ///< the model or table that its duration came from; measured: the kernel
  Bytes bytes = 0;       ///< collective: NCCL's message size; else device memory read and written
  Bytes wire_bytes = 0;  ///< a collective: sent by one rank
  std::int64_t flops = 0;
  friend bool operator==(const OpRecord&, const OpRecord&) = default;
};

/// A host thread that was recorded.
struct ThreadInfo {
  ClassRow rank_class;
  StringId process, name;
  friend bool operator==(const ThreadInfo&, const ThreadInfo&) = default;
};

/// A recorded call of the CUDA or HIP runtime or driver.
struct HostCallRecord {
  ThreadRow thread;
  StringId name;  ///< "cudaLaunchKernel"
  Ns start = 0, end = 0;
  friend bool operator==(const HostCallRecord&, const HostCallRecord&) = default;
};

/// A recorded wait of a stream for an event.
struct StreamWaitRecord {
  StreamRow stream;      ///< that waits
  HostCallRow call;      ///< that made it wait; absent: not recorded
  HostCallRow recorded;  ///< the call that recorded the event; absent: not known
  StringId awaited;      ///< the stream that the event is of, as its tool names it
  friend bool operator==(const StreamWaitRecord&, const StreamWaitRecord&) = default;
};

/// What a recording says of one of its collectives.
struct CollectiveRecord {
  OpRow op;
  StringId name;   ///< "_allgather_base"
  StringId dtype;  ///< "BFloat16"
  StringId group;  ///< name of the process group
  StringId ranks;  ///< list of ranks as text, perhaps cut
  std::int64_t in_elements = 0, out_elements = 0;
  std::uint32_t group_size = 0;          ///< 0: not said
  std::optional<std::int64_t> sequence;  ///< on the group
  friend bool operator==(const CollectiveRecord&, const CollectiveRecord&) = default;
};

/// What a recording says of the kernel of one of its ops, besides its time.
struct KernelLaunch {
  OpRow op;
  /// The innermost framework's operator around the launch, with its arguments as in RangeColumns;
  /// absent: none has shapes.
  StringId name, shapes, types, values;
  bool is_alone = false;     ///< the operator launched no other kernel
  std::int64_t threads = 0;  ///< of the whole grid; 0: not recorded
  friend bool operator==(const KernelLaunch&, const KernelLaunch&) = default;
};

/// The life of one allocation.
struct BindingRecord {
  StepRow step;
  StringId name;
  StringId scope;
  Cause cause = Cause::temporary;
  Bytes bytes = 0;        ///< as requested
  Bytes block_bytes = 0;  ///< rounded and with slack
  std::uint64_t address = 0;
  Ns allocated = 0;          ///< host time
  Ns freed = 0;              ///< host time of the free call; the step's end if still bound
  OpRow before_op;           ///< launched next after the allocation
  bool from_before = false;  ///< bound when the step began
  bool still_bound = false;  ///< at the step's end
  friend bool operator==(const BindingRecord&, const BindingRecord&) = default;
};

/// A change of the memory that the allocator holds from the driver, in host order.
struct SegmentRecord {
  StepRow step;
  StreamRow stream;
  SegmentChange change = SegmentChange::held;
  bool large = true;        ///< of the large pool
  bool expandable = false;  ///< a mapped range of an expandable segment
  Ns time = 0;              ///< host time
  std::uint64_t address = 0;
  Bytes bytes = 0;
  friend bool operator==(const SegmentRecord&, const SegmentRecord&) = default;
};

/// The memory curve where it changed.
struct MemoryRecord {
  StepRow step;
  Ns time = 0;  ///< host time
  Bytes requested = 0, allocated = 0, active = 0, reserved = 0;
  friend bool operator==(const MemoryRecord&, const MemoryRecord&) = default;
};

/// Bytes of one cause at the allocated peak of a step.
struct CauseRecord {
  StepRow step;
  Cause cause = Cause::temporary;
  Bytes bytes = 0;
  friend bool operator==(const CauseRecord&, const CauseRecord&) = default;
};

/// An allocation that found no memory: the run ends there.
struct FailureRecord {
  StepRow step;
  StringId name;    ///< of the storage
  Bytes bytes = 0;  ///< requested
  Ns time = 0;      ///< host time
  // The op that was to be launched next, as in its key.
  std::uint16_t micro_batch = 0;
  std::uint32_t ordinal = 0;
  OpKind kind = OpKind::other;
  Phase phase = Phase::other;
  StringId scope;
  friend bool operator==(const FailureRecord&, const FailureRecord&) = default;
};

}  // namespace foregather::run
