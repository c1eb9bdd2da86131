// A module tree from TOML.
#pragma once

#include <string>
#include <string_view>

#include "core/plan/module_tree.h"

namespace foregather::plan {

/// Reads model.tree of a workload's text, which is valid TOML and has that key: an array of tables,
/// one a module (docs/formats.md has the keys). `path` is the file's, for places. Errors: unknown
/// keys (the nearest is suggested), types and ranges, no kind or two, names that are taken, more
/// than kMostTreeModules modules, more than kDeepestTree levels.
Result<ModuleTree> read_tree(std::string_view text, const std::string& path);

}  // namespace foregather::plan
