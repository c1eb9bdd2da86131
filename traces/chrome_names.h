// What ops are called in a Chrome trace.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/run/run.h"

namespace foregather::traces {

/// Names and categories as torch.profiler has them, so that its readers (HolisticTraceAnalysis,
/// `foregather import`) find kernels, copies and collectives. The name of a recorded op is that of
/// its kernel. A predicted op has none: it is named after its op key, "layers.3.attn/forward/gemm",
/// but for what readers know by name alone: "ncclKernel_AllGather layers.3/forward", "Memcpy HtoD
/// layers.3/forward".
class ChromeNames {
 public:
  explicit ChromeNames(run::RunView run);

  /// JSON text without its quotes, of `space` or of this object.
  std::string_view title(run::OpRow op, std::string& space) const;
  /// "kernel", "gpu_memcpy" or "gpu_memset".
  std::string_view category(run::OpRow op) const;
  /// A text of the run as JSON, without quotes.
  std::string_view text(StringId id) const { return id ? texts_[id.row()] : std::string_view(); }

 private:
  bool is_recorded(run::OpRow op) const;

  run::RunView run_;
  std::vector<std::string> texts_;  // by StringId, escaped
  std::vector<bool> misleads_;      // by StringId: it would make any op a collective
};

/// `text` as JSON, without quotes.
std::string json_text(std::string_view text);

}  // namespace foregather::traces
