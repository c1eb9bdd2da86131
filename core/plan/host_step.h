// The optimizer of parameters that FSDP keeps in host memory.
#pragma once

#include "core/plan/lowering.h"

namespace foregather::plan {

/// torch.optim on `elements` host elements of this rank, after the norm and the clipping of as
/// many: host time alone (host_overhead.h; each pass is assumed to take what the update takes). The
/// norm's sum over the ranks goes over another network than the devices' and is left out.
void write_host_step(Lowering& lowering, std::int64_t elements);

}  // namespace foregather::plan
