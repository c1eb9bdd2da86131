// Thunder traces as sources of a prediction.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"
#include "traces/thunder_graph.h"

namespace foregather::tasks {

/// The part of a file that decides whether it is a Thunder trace.
std::string_view thunder_head(std::string_view text);

/// What the reader could not read, for the user.
std::vector<std::string> thunder_warnings(const traces::ThunderFile& file, const std::string& path);

/// The --set of a trace: the world size, where the trace does not show it, and the machine's.
struct WorldSets {
  std::optional<std::uint32_t> world_size;
  std::vector<std::string> others;
  std::optional<Error> error;
};
WorldSets take_world_size(const std::vector<std::string>& sets);

/// A file's path and content.
struct ThunderText {
  std::string path, text;
};

/// One step: the traces of one file, or of a forward and its backward in this or the other order.
struct ThunderStep {
  Graph graph;
  Bytes estimator_peak = 0;  ///< of the file, the larger one of two
  Bytes argument_bytes = 0;
  std::vector<std::string> warnings;
};
Result<ThunderStep> thunder_step(std::span<const ThunderText> texts,
                                 const traces::ThunderGraphOptions& options);

/// Are these a forward's and a backward's trace?
bool are_forward_and_backward(const std::string& first, const std::string& second);

}  // namespace foregather::tasks
