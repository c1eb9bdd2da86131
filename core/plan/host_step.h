// The optimizer of parameters that FSDP keeps in host memory.
#pragma once

#include "core/plan/lowering.h"

namespace foregather::plan {

/// Bytes that the optimizer's update of `elements` reads and writes: of an element parameter (read
/// and written) and gradient (read), and each state (read and written). In fp32 12 for SGD without
/// momentum, 20 with it, 28 for AdamW; AdamW with bf16 states 20; int8 states have an fp32 scale
/// for each 256 (also in parameters that OptimizerStep leaves as they are: small ones).
Bytes host_update_bytes(const Train& train, std::int64_t elements);

/// Host time of that update (host_overhead.h).
Ns host_update(const Workload& workload, std::int64_t elements);

/// Host time of multiplying the gradients by a number, and of reading them once for their norm.
Ns host_scaling(const Workload& workload, std::int64_t elements);
Ns host_norm(const Workload& workload, std::int64_t elements);

/// torch.optim on `elements` host elements of this rank, after the norm and the clipping of as
/// many: host time alone. The norm's sum over the ranks goes over another network than the devices'
/// and is left out.
void write_host_step(Lowering& lowering, std::int64_t elements);

}  // namespace foregather::plan
