// The options of the caching allocator, and the text form users know: PYTORCH_CUDA_ALLOC_CONF.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/units.h"

namespace foregather::alloc {

/// What changes the result. Defaults are PyTorch's.
struct AllocConfig {
  /// Slot k holds the divisions for sizes in [2^k MiB, 2^(k+1) MiB), the first also for smaller
  /// and the last for greater ones. 0 or 1: off.
  std::array<std::uint32_t, 16> roundup_power2_divisions{};
  /// Blocks of at least this size are never split; absent: no limit. At least large_segment_size.
  std::optional<Bytes> max_split_size;
  /// A request of at least max_split_size takes a cached block only if it wastes less than this.
  /// At least large_segment_size, which is also its default in the text form.
  Bytes max_non_split_rounding = 20 * MiB;
  /// In (0, 1), or 0: off. Works only with a memory fraction below 1.
  double garbage_collection_threshold = 0;
  bool expandable_segments = false;
  /// Size of the segment of a large-pool miss below 10 MiB; granule of large expandable segments.
  /// More than 10 MiB.
  Bytes large_segment_size = 20 * MiB;
  /// Share of the device this process may hold, in [0, 1]. 1: no limit, and no garbage collection.
  double memory_fraction = 1;
  /// `backend:cudaMallocAsync` is accepted by the parser so that a recorded string can be shown,
  /// but only the native allocator is replicated: CachingAllocator asserts that this is true.
  bool native_backend = true;

  friend bool operator==(const AllocConfig&, const AllocConfig&) = default;
};

/// Reads the text form, e.g. "expandable_segments:True,max_split_size_mb:128". An empty text is
/// the default. Spaces do not matter; later keys win. Keys without effect on placement (pinned
/// memory, locks, tracing) are checked and dropped. Errors: an unknown key (naming the nearest
/// known one), a bad value; the place of an error is empty.
///
/// In a list of roundup_power2_divisions, `>` overwrites the last named interval too, as PyTorch up
/// to 2.8 does; later versions start after it.
Result<AllocConfig> parse_alloc_conf(std::string_view text);

/// The canonical text: only what differs from the default, keys in alphabetical order;
/// parse_alloc_conf(to_string(c)) == c.
std::string to_string(const AllocConfig& config);

}  // namespace foregather::alloc
