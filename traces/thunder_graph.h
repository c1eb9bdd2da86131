// Thunder traces as a schedule graph.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/ir/graph.h"
#include "traces/thunder.h"

namespace foregather::traces {

/// One traced function of a step.
struct ThunderPart {
  const ThunderFile* file = nullptr;
  std::uint32_t function = 0;  ///< row of file->functions
  Phase phase = Phase::forward;
  std::string path;  ///< for warnings
};

struct ThunderGraphOptions {
  std::optional<std::uint32_t> world_size;  ///< where the shapes do not show it; they win
  std::uint32_t gpus_per_node = 8;
};

struct ThunderGraph {
  Graph graph;
  Bytes argument_bytes = 0;  ///< that the caller holds throughout
  std::vector<std::string> warnings;
};

/// The parts, one after the other, as the program of all ranks; each step repeats them, and ends
/// when the host has waited for the device: nothing of a step runs in the next.
///
/// - Each statement is one op on the compute stream; views, waits and deletes are none (their host
///   time goes to the next op). A fusion region is one op, and one more for each matrix product in
///   it. What a del names is released; what it leaves is released at the end of the step.
/// - Arguments are allocated before the first step and stay: the caller holds them. What a backward
///   gets in saved_for_backward and cotangents is freed once the collection is cleared and the name
///   deleted; where a forward comes before, it is what that forward returned, matched by position.
/// - An asynchronous collective runs on its group's own stream behind what was enqueued before it;
///   the compute stream waits for it at its wait. Its input is record_stream'ed, as PyTorch did
///   while Thunder used these.
/// - A reshape that PyTorch cannot express as a view is a copy. A bucket of DDP is allocated once.
/// - What has no type, after the shape rules, has no bytes: counted and named in the warnings.
/// - Tensors of the CPU have no bytes either, unless the whole trace is one of the CPU.
///
/// The world size is what the shapes of gathers and scatters, the arguments of packs or the
/// divisors of gradients show; else the given one; else one node with a warning if there are
/// collectives, or 1. Errors: none of the parts has a statement that the graph could not hold.
Result<ThunderGraph> thunder_graph(std::span<const ThunderPart> parts,
                                   const ThunderGraphOptions& options);

/// The parts of a step that a file holds: a forward and the backward that follows it, a joint
/// trace, or the last function that is no prologue; what is left out is named in `warnings`.
std::vector<ThunderPart> thunder_parts(const ThunderFile& file, const std::string& path,
                                       std::vector<std::string>& warnings);

/// Is this the function of a backward pass?
bool is_thunder_backward(const ThunderFile& file, const ThunderFunction& function);

}  // namespace foregather::traces
