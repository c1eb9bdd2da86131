// Chakra traces as a source of a prediction.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "traces/chakra_graph.h"

namespace foregather::tasks {

/// Is this file, or the first member of this archive, a Chakra trace in one of its forms?
bool is_chakra(const std::string& path);

/// Reads the traces of the ranks of a job, one a file or a member of an archive, in parallel, and
/// makes their schedule. Files with the same bytes, and traces with the same nodes and groups, are
/// one rank class. Ranks come from the names (see chakra_rank()); where two are equal or one has
/// none, from the order of the paths, with a warning. Errors: those of read_chakra() and
/// chakra_graph().
Result<traces::ChakraGraph> chakra_step(const std::vector<std::string>& paths,
                                        const traces::ChakraGraphOptions& options);

}  // namespace foregather::tasks
