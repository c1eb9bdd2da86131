// Calls in which the host waited for the device.
#pragma once

#include "core/rebuild/timeline.h"
#include "core/run/recording.h"

namespace foregather::rebuild {

/// Fills RecordedCall::awaited: a synchronisation waited for the op that ended last within it, of
/// those launched before; a copy or another launch that returned only after its own op had ended
/// waited for that. A synchronisation of the device is one only if nothing launched before it ends
/// later.
void find_blocking_calls(const run::Recording& recording, Timeline& timeline);

}  // namespace foregather::rebuild
