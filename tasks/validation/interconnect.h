// What the free texts of nccl-tests tables say about the machine.
#pragma once

#include <optional>
#include <string>

#include "core/base/result.h"
#include "core/ir/kinds.h"
#include "sim/cost/hardware.h"

namespace foregather::tasks {

/// The machine of a table: that of the GPU ("A100-SXM4-40GB"), with what the text says about links
/// and adapters ("NVLink4 direct 4-GPU node + Slingshot-11 4x200Gb/s", "PCIe Gen4, P2P enabled")
/// and about processes ("1 process -g 8"). Case does not matter. What the text does not say is as
/// the hardware file has it; InfiniBand without a speed is HDR on A100 and before, NDR since.
/// Errors: a GPU that no hardware file describes.
Result<sim::Hardware> machine_of_interconnect(const std::string& gpu, const std::string& text,
                                              int ranks, int nodes);

/// Whether one process of a node drives all its GPUs ("1 process -g 8"), as nccl-tests does without
/// MPI. So it is taken where the text of one node of A100 or older with NVLink says nothing: all
/// published tables of such nodes whose logs tell are of that kind, of newer GPUs most are not.
bool drives_all_gpus(const sim::Hardware& hardware, const std::string& text, int nodes);

/// Nodes as a collective sees them: trays of one NVLink domain ("NVL72", "MNNVL") are one, of up to
/// 72 GPUs.
int domains_of(const std::string& gpu, const std::string& text, int ranks, int nodes);

/// "all_gather", "AllGather", "all_gather_perf", "sendrecv".
std::optional<OpKind> collective_of(const std::string& text);

}  // namespace foregather::tasks
