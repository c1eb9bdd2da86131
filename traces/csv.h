// A run as comma-separated values, after RFC 4180: a header line, then a record a row, in the order
// of the run; integer nanoseconds and bytes. Tables join by rank_class and step, and by op_key.
#pragma once

#include "core/run/run.h"
#include "traces/formats.h"

namespace foregather::traces {

/// One op a row. Collectives have their communicator, its ranks and their number on it.
Status write_csv(run::RunView run, const TextSink& sink);

/// One point of the memory curve a row.
Status write_csv_memory(run::RunView run, const TextSink& sink);

/// One allocation a row.
Status write_csv_allocations(run::RunView run, const TextSink& sink);

}  // namespace foregather::traces
