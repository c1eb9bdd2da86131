// Allocations of a recording, as rows of a run.
#pragma once

#include <cstdint>

#include "core/rebuild/window.h"
#include "core/run/recording.h"
#include "core/run/run.h"

namespace foregather::rebuild {

/// Memory events of a step that say nothing, by reason.
struct UnusedMemory {
  std::int64_t without_address = 0;
};

/// Adds the device allocations that live in the window as bindings of the step, whose ops must be
/// there, and marks the step: their causes are inferred. `origin` is time 0 of the run on the
/// recording's clock. An allocation is of the op that its thread launches next (any thread, where
/// it is not recorded), and so is a free; their phases tell the cause:
///   held from before the step to its end: persistent (parameters, optimizer states);
///   forward to backward: activation; backward to a later phase, or to the end: gradient;
///   freed in the phase of its allocation: temporary; from the optimizer to the end: persistent;
///   anything else: unknown.
/// What was held before the first event and is never freed is one binding without an address, by
/// the recorded total. n log n in events and ops.
UnusedMemory add_allocations(const run::Recording& recording, const Window& window, Ns origin,
                             run::StepRow step, run::Run& run);

}  // namespace foregather::rebuild
