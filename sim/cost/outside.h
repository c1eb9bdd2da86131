// Device memory that the caching allocator never sees.
#pragma once

#include "core/base/units.h"
#include "core/ir/graph.h"
#include "sim/cost/hardware.h"

namespace foregather::sim {

/// An estimate of what one rank holds besides the allocator's segments: the CUDA context, the
/// channel buffers of each communicator over more than one rank, and loaded libraries. cuBLAS
/// workspaces are not among them: PyTorch takes those from its allocator. The figures
/// and their sources are in the hardware file; the estimate is good to a few hundred MiB.
Bytes outside_allocator_bytes(const Graph& graph, const Hardware& hardware);

}  // namespace foregather::sim
