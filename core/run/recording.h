// What another tool recorded of one process, by column, before anything is concluded from it. Times
// are integer nanoseconds on the file's own clock, sizes integer bytes.
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
#include "core/run/event_counts.h"
#include "core/run/work_sample.h"

namespace foregather::run {

using LaneRow = Id<struct LaneTag>;
using CorrelationId = Id<struct CorrelationTag>;  ///< dense: equal numbers of the file, one id
using ExternalId = Id<struct ExternalTag>;        ///< dense, likewise
using CollectiveRow = Id<struct RecordedCollectiveTag>;
using ActivityRow = Id<struct ActivityTag>;
using CallRow = Id<struct CallTag>;
using RangeRow = Id<struct RangeTag>;

/// Where events lie, as the file names it: device and stream of device work, process and thread of
/// what the host does.
struct Lane {
  StringId process;
  StringId thread;
  friend bool operator==(const Lane&, const Lane&) = default;
};

enum class ActivityKind : std::uint8_t { kernel, memcpy, memset };

/// Device work, in the file's order.
struct ActivityColumns {
  std::vector<LaneRow> lane;
  std::vector<ActivityKind> kind;
  std::vector<StringId> name;
  std::vector<Ns> start, end;
  std::vector<CorrelationId> correlation;
  std::vector<ExternalId> external;
  std::vector<Bytes> bytes;  ///< of a copy or a fill, else 0
  /// Of a kernel: those of its whole grid; 0: not recorded.
  std::vector<std::int64_t> threads;
  std::vector<CollectiveRow> collective;
  /// Whose work it is, as lanes of calls name it; absent: not recorded. No rows where the whole
  /// recording does not say it.
  std::vector<StringId> process;
  std::size_t size() const { return start.size(); }
};

/// Calls of the CUDA or HIP runtime and driver.
struct CallColumns {
  std::vector<LaneRow> lane;
  std::vector<StringId> name;
  std::vector<Ns> start, end;
  std::vector<CorrelationId> correlation;
  std::vector<ExternalId> external;
  std::size_t size() const { return start.size(); }
};

enum class RangeKind : std::uint8_t {
  op,          ///< an operator of the framework
  annotation,  ///< record_function, NVTX, profiler steps
  python,      ///< a Python function
};

/// Named stretches of host time.
struct RangeColumns {
  std::vector<LaneRow> lane;
  std::vector<RangeKind> kind;
  std::vector<StringId> name;
  std::vector<Ns> start, end;
  std::vector<ExternalId> external;
  std::vector<std::int64_t> sequence;     ///< of autograd; -1: none
  std::vector<std::uint8_t> is_backward;  ///< it runs the backward of an op of another thread
  std::vector<CollectiveRow> collective;
  /// Of an op: the sizes and the types of its arguments as JSON lists, see op_shapes.h; absent: not
  /// recorded.
  std::vector<StringId> shapes, types;
  /// Of an op of FlashAttention or cuDNN's: the values of its scalar arguments, a JSON list; else
  /// absent.
  std::vector<StringId> values;
  std::size_t size() const { return start.size(); }
};

/// A synchronisation as the device saw it (Kineto's cuda_sync, CUPTI's synchronization records).
struct SyncColumns {
  std::vector<LaneRow> lane;  ///< of the stream that waits
  std::vector<StringId> name;
  std::vector<Ns> start, end;
  std::vector<CorrelationId> correlation;  ///< of the call that waits
  std::vector<CorrelationId> recorded;     ///< of the call that recorded the event waited for
  std::vector<StringId> awaited_stream;    ///< thread of the lane waited for
  std::vector<StringId> process;           ///< as in ActivityColumns
  std::size_t size() const { return start.size(); }
};

/// What an event says about a collective.
struct RecordedCollective {
  StringId name;   ///< "_allgather_base"
  StringId dtype;  ///< "BFloat16"
  StringId group;  ///< name of the process group
  StringId ranks;  ///< list of ranks as text, perhaps cut
  std::int64_t in_elements = 0, out_elements = 0;
  std::uint32_t group_size = 0;          ///< 0: not said
  std::optional<std::int64_t> sequence;  ///< on the group
  bool is_of_shapes = false;  ///< concluded from an operator's shapes: all else is unsaid
  friend bool operator==(const RecordedCollective&, const RecordedCollective&) = default;
};

/// Events of PyTorch's allocators.
struct MemoryColumns {
  std::vector<LaneRow> lane;     ///< of the thread that allocates or frees; absent: not recorded
  std::vector<StringId> device;  ///< "TYPE:INDEX", 0 CPU, 1 CUDA
  std::vector<Ns> time;
  std::vector<std::uint64_t> address;                  ///< 0: not recorded
  std::vector<Bytes> bytes;                            ///< negative: freed
  std::vector<Bytes> total_allocated, total_reserved;  ///< 0 where the file has none
  std::size_t size() const { return time.size(); }
};

/// What the file calls a lane; absent: nothing.
struct LaneLabel {
  StringId process;  ///< "DP rank [0]"
  StringId thread;   ///< "PP rank 3, TP rank 0, dp-comm"
};

/// What a pipeline timeline says of its activities, row by row; no rows in other recordings.
struct TimelineColumns {
  std::vector<std::optional<std::int64_t>> step, micro_batch, model_chunk;
  std::vector<std::optional<std::int64_t>> sequence;  ///< of its name, in its lane and step
};

/// An operator of the framework with the shapes of its arguments, as in RangeColumns; none: absent.
struct KnownOperator {
  StringId name, shapes, types, values;
  bool is_alone = false;  ///< it launched this and nothing else
};

/// What our own rows and exports know of activities, row by row; no rows in recordings of other
/// tools.
struct KnownOps {
  std::vector<std::uint16_t> micro_batch;
  std::vector<std::uint32_t> ordinal;  ///< as in run::OpRecord
  std::vector<OpKind> kind;
  std::vector<Phase> phase;
  std::vector<StringId> scope;
  std::vector<Bytes> bytes, wire_bytes;  ///< as in run::OpRecord; 0: not known
  std::vector<std::int64_t> flops;       ///< likewise
  std::vector<KnownOperator> operators;  ///< none at all where no rows say them
  std::vector<KernelWork> works;         ///< by kernel: what its activities do
};

/// What became of the events of a file: read = kept + unused + dropped (Recording::dropped).
struct RecordedRows {
  std::int64_t read = 0;
  std::int64_t kept = 0;  ///< they have a row in the columns, or are part of one
  EventCounts unused;     ///< by category: understood, and of no use here
};

/// One file, of one process or of several. Row references are into its own columns; texts into
/// `strings`.
struct Recording {
  std::string source;         ///< path, with "!MEMBER" for a member of an archive
  bool is_predicted = false;  ///< an export of ours of what was simulated
  bool is_part = false;       ///< one rank of a file of several: its clock is theirs
  StringTable strings;
  std::vector<Lane> lanes;
  std::vector<RecordedCollective> collectives;
  ActivityColumns activities;
  CallColumns calls;
  RangeColumns ranges;
  SyncColumns syncs;
  MemoryColumns memory;
  TimelineColumns timeline;
  KnownOps known;
  std::vector<LaneLabel> labels;  ///< by lane, or none at all
  std::size_t correlations = 0;   ///< CorrelationIds given out
  std::size_t externals = 0;      ///< ExternalIds given out

  Ns base = 0;  ///< nanoseconds since the epoch of time 0 of this file; 0: unknown
  std::optional<std::uint32_t> rank, world_size;
  /// Of a raw recording, which is of one process: a rank may have several (see
  /// rebuild/processes.h).
  std::string host;
  std::int64_t process = 0;
  std::vector<std::uint32_t> group_sizes;  ///< of the process groups, where the file lists them
  std::string backend;
  std::vector<std::string> devices;  ///< names of the GPUs that the machine has
  RecordedRows rows;
  EventCounts dropped;  ///< damaged events by reason
  std::vector<std::string> warnings;

  std::string_view text(StringId id) const { return strings.text(id); }
};

}  // namespace foregather::run
