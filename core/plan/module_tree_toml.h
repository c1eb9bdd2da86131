// A module tree from TOML. Includes the parser's header: only for the sources that read workloads.
#pragma once

#include <toml++/toml.h>

#include <string>

#include "core/plan/module_tree.h"

namespace foregather::plan {

/// `node` is the value of model.tree: an array of tables, one a module (docs/formats.md has the
/// keys). `path` is the file's, for places. Errors: unknown keys (the nearest is suggested), types
/// and ranges, no kind or two, names that are taken, more than kMostTreeModules modules, more than
/// kDeepestTree levels.
Result<ModuleTree> read_tree(const toml::node& node, const std::string& path);

}  // namespace foregather::plan
