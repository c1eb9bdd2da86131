// Packs collectives of one bucket into one: what Thunder's bucketing does to a trace.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "sim/passes/gather_chain.h"
#include "sim/passes/host_actions.h"
#include "sim/passes/rewriter.h"

namespace foregather::sim {

/// A collective that can go into a bucket: it reads one storage and writes another, on a stream
/// that waits for the caller's and is waited for by it, in one host thread.
struct Bucketable {
  OpId op;
  ActionIndex begin = 0, at = 0, end = 0;  ///< its issue, from its allocation to its event
  ActionIndex wait = 0;                    ///< of the caller's stream
  StreamId caller;                         ///< its output's pool, and what waits for it
  AccessedTensor input, output;
  std::size_t output_life = 0;  ///< row of HostActions::bindings
  std::size_t input_life = 0;   ///< of a reduction
  bool is_gather = true;
};

/// Those of a section, in the order of their issue. Reductions only where releases end the lives of
/// the gradients and of the results.
std::vector<Bucketable> bucketables(const Graph& graph, const HostActions& actions);

/// Rows that both sections use.
struct BucketRows {
  std::map<std::vector<OpId>, std::vector<OpId>> ops;  ///< of a bucket: pack, collective, unpack
  std::map<std::vector<OpId>, std::vector<StorageId>> buffers;
  std::map<std::vector<OpId>, TensorId> reduced;
};

/// Packs the members (in order of issue, of one kind, phase, communicator and dtype) into one
/// collective. Gathers: packed and issued where the first was, waited for where the first was, and
/// unpacked there into the parameters. Reductions: packed and issued where the last was, waited for
/// where the first was; the gradients live until then and the results are views. Not flushed.
void rewrite_bucket(Rewriter& rewriter, ProgramId program, const HostActions& actions,
                    const std::vector<Bucketable>& members, BucketRows& rows);

}  // namespace foregather::sim
