// The machine that a workload runs on.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/plan/workload.h"
#include "sim/cost/hardware.h"

namespace foregather::tasks {

/// The hardware file of a cluster, with its topology, its fabric and its fabric_gbps over it.
/// The place of an error is one in a file, or the key.
Result<sim::Hardware> load_machine(const plan::Cluster& cluster);

/// FlashAttention-2 needs Ampere (PyTorch's sdp_utils.cpp, check_sm_version).
bool has_flash_attention(const sim::Hardware& hardware);

/// What the workload asks for and the hardware cannot do: an error at its key.
Status check_machine(const plan::Workload& workload, const sim::Hardware& hardware);

/// What it does in another way than one may think, with its place.
std::vector<std::string> machine_warnings(const plan::Workload& workload,
                                          const sim::Hardware& hardware);

}  // namespace foregather::tasks
