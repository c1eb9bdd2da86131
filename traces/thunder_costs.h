// What the calls of a Thunder trace cost: FLOPs and bytes from the shapes.
#pragma once

#include <optional>
#include <vector>

#include "core/ir/graph.h"
#include "traces/thunder_shapes.h"

namespace foregather::traces {

/// A kernel, or the kernels of a fusion, that one statement stands for.
///
/// A matrix product: FLOPs of its shape. Attention: two products forward, five backward, of the
/// whole square (causal ones half). All else streams its arguments and results once; a fusion
/// nothing else, with a FLOP for each element that its sub-symbols make. A fusion with products in
/// it (TorchCompileN) has one row for each of them and one for the rest.
std::vector<Cost> thunder_costs(const ThunderFile& file, const ThunderTypes& types,
                                std::uint32_t statement);

}  // namespace foregather::traces
