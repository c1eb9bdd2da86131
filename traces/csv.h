// A run as comma-separated values, after RFC 4180.
#pragma once

#include "core/run/run.h"
#include "traces/formats.h"

namespace foregather::traces {

/// A header line, then one op a row in the order of the run; integer nanoseconds and bytes.
Status write_csv(run::RunView run, const TextSink& sink);

}  // namespace foregather::traces
