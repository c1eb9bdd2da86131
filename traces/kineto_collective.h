// What an operator of c10d says of its collective by the shapes of its arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "traces/kineto_event.h"

namespace foregather::traces {

struct OperatorCollective {
  std::string name;   ///< "_allgather_base"; of the range of gloo's own thread "gloo:all_gather"
  std::string dtype;  ///< "BFloat16", as NCCL's events name it; empty: a list does not say
  /// 0: that side is a list of lists, which the profiler does not print.
  std::int64_t in_elements = 0, out_elements = 0;
};

/// Of "c10d::…" and "gloo:…", where the profiler recorded shapes ("Input Dims", "Input type").
std::optional<OperatorCollective> operator_collective(const KinetoEvent& event);

}  // namespace foregather::traces
