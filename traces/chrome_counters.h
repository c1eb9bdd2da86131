// The counters of a Chrome trace: memory over the host's time.
#pragma once

#include "core/run/run.h"
#include "traces/chrome_events.h"

namespace foregather::traces {

/// The memory curve of a class, and how many bytes each cause holds where its allocations are
/// known. Curves that the run does not know (zero throughout) are left out. `track` is any track of
/// the process that shows them.
void write_counters(run::RunView run, run::ClassRow rank_class, ChromeTrack track,
                    ChromeEvents& events);

}  // namespace foregather::traces
