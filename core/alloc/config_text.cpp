// AllocConfig to text.
#include <algorithm>

#include "core/alloc/config.h"

namespace foregather::alloc {
namespace {

// One number where all intervals agree, else every interval by its start in MiB.
std::string divisions_text(const std::array<std::uint32_t, 16>& slots) {
  if (std::equal(slots.begin() + 1, slots.end(), slots.begin())) return fmt::format("{}", slots[0]);
  std::string out = "[";
  for (std::size_t slot = 0; slot < slots.size(); ++slot) {
    out += fmt::format("{}{}:{}", slot == 0 ? "" : ",", 1 << slot, slots[slot]);
  }
  return out + "]";
}

}  // namespace

std::string to_string(const AllocConfig& config) {
  const AllocConfig defaults;
  std::string out;
  const auto add = [&](bool differs, std::string_view key, auto value) {
    if (differs) out += fmt::format("{}{}:{}", out.empty() ? "" : ",", key, value);
  };
  add(!config.native_backend, "backend", "cudaMallocAsync");
  add(config.expandable_segments, "expandable_segments", "True");
  add(config.garbage_collection_threshold > 0, "garbage_collection_threshold",
      config.garbage_collection_threshold);
  add(config.large_segment_size != defaults.large_segment_size, "large_segment_size_mb",
      config.large_segment_size / MiB);
  add(config.max_non_split_rounding != config.large_segment_size, "max_non_split_rounding_mb",
      config.max_non_split_rounding / MiB);
  add(config.max_split_size.has_value(), "max_split_size_mb",
      config.max_split_size.value_or(0) / MiB);
  add(config.memory_fraction < 1, "per_process_memory_fraction", config.memory_fraction);
  add(config.roundup_power2_divisions != defaults.roundup_power2_divisions,
      "roundup_power2_divisions", divisions_text(config.roundup_power2_divisions));
  return out;
}

}  // namespace foregather::alloc
