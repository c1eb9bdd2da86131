// What is known of one span, in words.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gui/models/lanes.h"

namespace foregather::gui {

/// What may stand in a box of the timeline, the longest first: "layers.3.attn gemm", "attn gemm",
/// "gemm"; the kernel of a recorded op without a scope; the call.
std::vector<std::string> short_names(const Session& session, const Span& span);
/// The op key; the name of a call.
std::string full_name(const Session& session, const Span& span);

struct Detail {
  std::string name, value;
  std::optional<Ns> at = {};  ///< of a value that is a time of the axis
};

/// For a table beside the timeline: times, what held it back, bytes, where its duration comes from,
/// what it met on the other side.
std::vector<Detail> details(const Session& session, const Span& span);

}  // namespace foregather::gui
