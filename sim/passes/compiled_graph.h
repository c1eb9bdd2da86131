// The graphs of a compiled model within a schedule: forwards and backwards whose collectives are
// nodes (DeepCompile), which passes put into another order.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "sim/passes/rewriter.h"

namespace foregather::sim {

/// A node: what is launched as one.
struct CompiledNode {
  /// One op; of a gather its own, preceded by what casts or copies the shard.
  std::vector<OpId> ops;
  bool is_gather = false;
  bool is_reduce = false;             ///< copies a gradient into a bucket
  bool is_output = false;             ///< made last what outlives the graph
  std::vector<std::uint32_t> args;    ///< earlier nodes that it follows, in the order of accesses
  std::vector<StorageId> touched;     ///< each once
  std::optional<StorageId> gathered;  ///< of a gather: its output
  std::uint32_t last_use = 0;         ///< of a gather: the last node that touches its output
  std::vector<Action> delays;         ///< of the host, right before it
};

/// Where a bucket's gradient is received, and what adds or casts it there.
struct ReduceTarget {
  AccessedTensor received;
  std::optional<OpId> finish;
};

/// One forward or backward: a run of actions of one list between marks and waits of the host. The
/// flushes of buckets are no nodes: they follow from the order of the gradients.
struct CompiledGraph {
  ActionList list;                  ///< of section body
  std::array<Range, 2> actions;     ///< in section first, in section body
  std::vector<CompiledNode> nodes;  ///< in order of launch

  std::vector<std::uint32_t> reduces;  ///< nodes
  std::vector<ReduceTarget> targets;   ///< by index of `reduces`
  std::vector<TensorId> buckets;       ///< in the order in which they are filled
  struct Flush {
    OpId scale, reduce;
  };
  std::vector<Flush> flushes;
};

/// Streams of a schedule of compiled graphs.
struct CompiledStreams {
  StreamId main, gather;
  std::optional<StreamId> copy, reduce;
};

struct CompiledProgram {
  ProgramId program;
  CompiledStreams streams;
  std::vector<CompiledGraph> graphs;  ///< in the order of threads, then of actions
};

/// Finds them. Error: why the schedule has none: several programs, gathers of several parameters or
/// none, streams that play other parts, events that cross a graph's border, first and steady step
/// that differ. Linear in actions and accesses.
Result<CompiledProgram> compiled_graphs(const Graph& graph);

/// Writes a graph anew, in both sections, with its nodes in the given order (all of them, each
/// after its args). Storages are allocated before their first node and freed behind their last,
/// gradients in buckets with the flush. Gathers wait for what compute has so far; compute waits for
/// a gather before it first uses it. Buckets are filled and flushed in the new order: flushes may
/// become more or fewer. `prefetched`, by node: the gather's output comes from the pool of the main
/// stream. To be followed by Rewriter::flush().
void write_compiled_graph(Rewriter& rewriter, const CompiledProgram& program,
                          const CompiledGraph& graph, std::span<const std::uint32_t> order,
                          const std::vector<bool>& prefetched = {});

/// A name to break ties by: the module path of a node, then its parameter.
std::string node_name(const Graph& graph, const CompiledNode& node);

}  // namespace foregather::sim
