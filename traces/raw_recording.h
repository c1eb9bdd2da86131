// What Foregather's own raw recordings hold beside the tables of Nsight Systems.
#pragma once

#include "core/base/result.h"
#include "traces/foreign_sqlite.h"
#include "traces/nsys.h"

namespace foregather::traces {

/// Is this export a raw recording (`foregather record`)?
bool is_raw_recording(const ForeignDatabase& database);

/// Adds to what NsysEvents read: rank, host and life of the process (a range "process NAME"), what
/// the recorder lost (dropped, or unused where it lies outside the window) and told, steps of the
/// clock, and the collectives that NCCL's plug-in described, each at the kernels that its group
/// launched: of a launch on a thread the calls that lie within it, if the group is of one
/// collective. Communicators are known by their number, and collectives by their sequence.
Status read_raw_recording(const ForeignDatabase& database, NsysTrace& trace);

}  // namespace foregather::traces
