// A run's memory as a PyTorch memory snapshot, for https://pytorch.org/memory_viz.
#pragma once

#include "traces/formats.h"

namespace foregather::traces {

/// The last step of every rank class, each as one device: its allocations, frees and segment
/// changes as history, what is held at its end as segments. A pickle of protocol 4. Frames name
/// what a block holds and the module it belongs to. A free is completed where it was requested:
/// runs do not keep when the events of a deferred free happened. `conf`: the allocator's, as the
/// program had it.
///
/// Errors: a run without segments, which only runs with recorded memory have.
Status write_memory_viz(run::RunView run, const std::string& conf, const TextSink& sink);

}  // namespace foregather::traces
