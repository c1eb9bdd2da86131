// A run as a Chrome trace: JSON object form, as ui.perfetto.dev and chrome://tracing read it.
#pragma once

#include "core/run/run.h"
#include "traces/formats.h"

namespace foregather::traces {

/// A process a rank class, a track a stream, a complete event ("X") an op, counters ("C") for the
/// memory curve. `ts` and `dur` are microseconds with three decimals: exact nanoseconds. A
/// collective that waits for other ranks is two events, "… wait" and the transfer. The same run
/// gives the same bytes.
Status write_chrome(run::RunView run, const TextSink& sink);

}  // namespace foregather::traces
