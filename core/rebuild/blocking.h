// Calls in which the host waited for the device.
#pragma once

#include "core/rebuild/timeline.h"
#include "core/run/recording.h"

namespace foregather::rebuild {

/// Fills RecordedCall::awaited, of ops that were launched before the call:
///   a synchronisation waited for the op that ended last within it. One that found nothing to wait
///   for would wait for the last op of the device, of the stream that the tool's record names (else
///   the last op that its thread launched), or in front of the event that its thread has just
///   recorded, if that op ran longer;
///   a copy or another launch that returned only after its own op had ended waited for that;
///   a launch that took long while the device had as many ops before it as its queue takes waited
///   for the one that ended last within it;
///   a call that gives memory back, or makes host memory, waits for the device where it returned
///   soon after the last op's end.
/// A synchronisation of the device is one only if nothing launched before it ends later.
void find_blocking_calls(const run::Recording& recording, Timeline& timeline);

}  // namespace foregather::rebuild
