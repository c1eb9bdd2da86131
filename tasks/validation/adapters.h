// The adapters between nodes that a free text tells of.
#pragma once

#include <optional>
#include <string_view>

namespace foregather::tasks {

inline constexpr double kFastestAdapter = 800;  ///< Gb/s: what is faster is several together

/// "8x200Gb/s" -> 8, 200; "EFA 3200 Gbps" -> no count, 3200; "4x HDR" -> 4, 200.
struct Adapters {
  std::optional<int> count;  ///< of a node or a GPU, as far as it is stated
  double gbps = 0;           ///< of each
  bool is_of_gpu = false;    ///< each GPU has so many: "2x200Gb/s per GPU"
  bool is_of_node = false;   ///< all of a node together: "1600 Gbps per node"
};

/// Signs, "and" and "with" part a text; what stands in parentheses speaks of what they follow.
/// Parts that name a network ("IB", "NIC", "per node") come first, then those that name nothing.
/// What is said of links inside a node ("NVLink 900 GB/s") is none of an adapter.
std::optional<Adapters> adapters_of(std::string_view text);

}  // namespace foregather::tasks
