// What a Kineto file says beside its events.
#pragma once

#include "core/run/recording.h"
#include "traces/json_stream.h"
#include "traces/kineto.h"

namespace foregather::traces {

/// Rank, world size, backend, devices and the clock's base into the recording, the rest into facts.
/// A value of an unexpected type is as good as absent.
void read_kineto_top(const JsonTop& top, run::Recording& recording, KinetoFacts& facts);

}  // namespace foregather::traces
