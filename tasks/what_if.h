// The passes of --what-if that change prices.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"
#include "sim/cost/price.h"

namespace foregather::tasks {

/// What the passes of a command line ask for, in order.
struct WhatIf {
  std::vector<std::string> texts;  ///< as given
  double links = 1;                ///< speed of every link
  double compute = 1;              ///< speed of all compute
  struct KindSpeed {
    OpKind kind;
    double speed;
  };
  std::vector<KindSpeed> kinds;  ///< speed of ops of one kind
};

/// Reads "scale=links:2", "scale=compute:1.5", "scale=gemm:2". Unknown passes are an error that
/// names the known ones.
Result<WhatIf> parse_what_if(const std::vector<std::string>& passes);

/// Divides the durations of the kinds that the passes name. Returns a warning for each kind that
/// the graph does not have.
std::vector<std::string> scale_kinds(const WhatIf& what_if, const Graph& graph,
                                     sim::CostTable& table);

}  // namespace foregather::tasks
