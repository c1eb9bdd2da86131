// The passes by name. The help of the command line, docs/passes.md and errors are made from this.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/passes/pass.h"

namespace foregather::sim {

/// In the order in which help and documentation list them.
std::span<const PassInfo* const> passes();

/// Reads "NAME[=ARG[,KEY=VALUE]…]". Errors: an unknown name (with the nearest known one), arguments
/// that the pass does not take; all with the place "--what-if TEXT".
Result<Pass> parse_pass(const std::string& text);
Result<std::vector<Pass>> parse_passes(const std::vector<std::string>& texts);

/// Applies them in order; a note for each. Stops at the first error.
Result<std::vector<PassNote>> apply_passes(const std::vector<Pass>& passes, PassTarget& target);

/// One line a pass, "scale=KIND:FACTOR  makes …", for the help of --what-if.
std::string passes_help();
/// docs/passes.md.
std::string passes_markdown();

}  // namespace foregather::sim
