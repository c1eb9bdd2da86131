// Which ops of other streams an op waited for.
#pragma once

#include "core/rebuild/timeline.h"

namespace foregather::rebuild {

/// Fills RecordedOp::deps. Three sources, in this order:
///   the tool's own records of stream waits (Recording::syncs): the last op of the awaited stream
///   that was launched before the event was recorded holds back the next one of the waiting stream;
///   calls that wait for events, where the tool has no such records: the next op that the thread
///   launches waits for the last one, of any other stream of its device, launched before the event
///   was recorded (the last such call of the thread), whichever ended last; where none of these had
///   ended when it began, the wait is that of the next op on another stream;
///   times: an op that starts right behind the end of another stream's op, where nothing else
///   explains it.
/// A dep that ends after its op starts is none. `shift` is the recording's time at time 0 of the
/// host's calls.
void find_waits(const run::Recording& recording, Timeline& timeline, Ns shift);

}  // namespace foregather::rebuild
