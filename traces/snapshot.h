// PyTorch memory snapshots as rows: what torch.cuda.memory._dump_snapshot writes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/base/result.h"
#include "core/base/strings.h"
#include "core/base/units.h"
#include "traces/byte_stream.h"
#include "traces/stacks.h"
#include "traces/text_source.h"

namespace foregather::traces {

enum class SnapshotAction : std::uint8_t {
  alloc,
  free_requested,
  free_completed,
  segment_alloc,
  segment_free,
  segment_map,
  segment_unmap,
  oom,
  other,  ///< snapshot, annotations and whatever comes later: no effect on memory
};

/// One entry of a device's history.
struct SnapshotEvent {
  std::int64_t address = 0;  ///< of an oom: bytes that the device had free
  Bytes size = 0;            ///< as requested; of segment_*: of the segment or the mapped range
  std::uint64_t stream = 0;  ///< the handle's value
  std::int64_t time_us = 0;  ///< since 1970, within ±kLatestTime; 0 in old files
  StackId stack;             ///< absent: not recorded
  SnapshotAction action = SnapshotAction::other;
};

enum class SnapshotState : std::uint8_t { allocated, pending_free, inactive };

struct SnapshotBlock {
  std::int64_t address = 0;
  Bytes size = 0;
  Bytes requested = 0;  ///< means something only in blocks that are not inactive
  SnapshotState state = SnapshotState::inactive;
  StackId stack;  ///< of the allocation, where recorded
};

/// More than a process can have: a greater number is damage.
inline constexpr std::int64_t kSnapshotDevices = 4096;

/// A segment at the moment of the dump, or one mapped range of an expandable segment.
struct SnapshotSegment {
  std::int64_t device = 0;  ///< below kSnapshotDevices
  std::int64_t address = 0;
  Bytes total = 0;
  std::uint64_t stream = 0;
  bool is_large = true;
  bool is_expandable = false;
  bool in_private_pool = false;
  std::vector<SnapshotBlock> blocks;  ///< by address; they fill the segment
};

/// A value of allocator_settings that is no container.
struct SnapshotOption {
  std::string group;  ///< the dict in it that holds this one; empty: it stands there itself
  std::string name;
  std::variant<bool, std::int64_t, std::uint64_t, double, std::string> value;
};

/// The options in force at the dump.
struct SnapshotSettings {
  std::string conf;                            ///< PYTORCH_CUDA_ALLOC_CONF
  std::optional<std::int64_t> max_split_size;  ///< negative: unlimited
  std::optional<double> garbage_collection_threshold;
  std::optional<bool> expandable_segments;
  /// By interval: [2^k MiB, 2^(k+1) MiB).
  std::optional<std::array<std::int64_t, 16>> roundup_power2_divisions;
  std::vector<SnapshotOption> all;  ///< as in the file
};

struct Snapshot {
  int protocol = 0;               ///< of the pickle
  Bytes bytes = 0;                ///< unpacked
  std::vector<std::string> keys;  ///< of the outermost dict
  StringTable strings;
  StackTable stacks;
  std::vector<SnapshotSegment> segments;           ///< by address
  std::vector<std::vector<SnapshotEvent>> traces;  ///< by device; empty: not in use
  std::int64_t unknown_actions = 0;                ///< events whose action is not known
  std::int64_t damaged_times = 0;                  ///< events whose time lay beyond kLatestTime
  std::optional<SnapshotSettings> settings;        ///< absent in old files
  bool has_times = false;
};

/// Reads a snapshot pickle of any writer generation; see traces/pickle.h for what is refused.
/// Rows are made while reading: a file is never held as a whole, and stacks exist once.
/// Errors have `path` as their place.
Result<Snapshot> read_snapshot(ByteStream stream, const std::string& path);
/// A file, packed by gzip or zstd or not, or FILE!MEMBER of a tar archive; an archive of one file
/// is that file. What is packed is held as a whole while it is read, and is at most 4 GiB. Errors
/// also: those of visit_texts(), an archive of several.
Result<Snapshot> read_snapshot(const std::string& path);
/// A member as visit_texts() has it.
Result<Snapshot> read_snapshot(const TextMember& member, TextSource& text);

}  // namespace foregather::traces
