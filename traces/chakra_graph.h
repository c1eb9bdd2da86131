// Chakra traces of the ranks of a job become one schedule graph.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"
#include "traces/chakra.h"

namespace foregather::traces {

/// Ranks whose traces are equal: simulated once.
struct ChakraClass {
  const ChakraTrace* trace = nullptr;  ///< borrowed
  std::vector<std::uint32_t> ranks;
};

struct ChakraGraphOptions {
  /// Of the job. Not said: what the ranks and process groups name. Of one trace alone, all ranks
  /// are taken to do the same.
  std::optional<std::uint32_t> world_size;
  std::uint32_t gpus_per_node = 8;
  /// Durations by CostId of a graph with costs and groups, to find the order of nodes by; null:
  /// only fixed ones take time.
  std::function<std::vector<Ns>(const Graph&)> durations;
};

struct ChakraGraph {
  Graph graph;
  std::vector<std::string> warnings;
};

/// A program for each class: one host thread launches every node and waits for the device, so that
/// a step is one execution of the whole graph. Nodes are ops with their dependencies; ids that are
/// not there, and a node's on itself, are left out. Streams keep apart what runs one after the
/// other, as in ASTRA-sim: compute, each communicator, copies of memory, the host's nodes. A free
/// stream takes the node that has been ready for longest: see ready_order(). All classes start the
/// nodes of a communicator in the order of the first class that has it, the n-th node of it in one
/// file standing for the n-th in another.
///
/// A compute node takes its duration, else what its num_ops and tensor_size cost. A collective with
/// comm_size is priced from it (an all-gather's is a rank's shard); without one it takes its
/// duration. Communicators are process groups (pg_name; "" and "0" are one, of all ranks where the
/// trace declares no ranks for it) and the pairs of sends and receives. Communication without a
/// kind or peers takes its duration and meets no other rank's. What has nothing to take time by is
/// warned of.
///
/// Errors, at the trace's source: a rank that uses a group without it; an order of a communicator
/// that another class's dependencies do not allow; data dependencies that go in a circle, with the
/// nodes; more than kMostRanks ranks. Control dependencies on later nodes that close one are left
/// out with a warning, as traces of chakra's converter have them.
Result<ChakraGraph> chakra_graph(std::span<const ChakraClass> classes,
                                 const ChakraGraphOptions& options);

}  // namespace foregather::traces
