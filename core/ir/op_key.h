// The name that an op has on both sides: predicted and measured rows meet by it.
#pragma once

#include <string>

#include "core/ir/graph.h"

namespace foregather {

/// Numbers the ops of each program that share micro-batch, scope, phase and kind, in row order.
/// Linear time. At most 65,536 share one key; later ones wrap (validate() reports it).
void assign_ordinals(Graph& graph);

/// "r0/s1/m0/layers.3.attn/backward/gemm/2"; a collective adds its communicator and sequence
/// number: "…/all_gather/0@fsdp#17". The root scope is written "-".
std::string op_key(const Graph& graph, OpId op, std::uint32_t rank, std::uint32_t step);

}  // namespace foregather
