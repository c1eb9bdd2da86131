// The tables of comparisons.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/run/comparison.h"
#include "core/store/sqlite.h"

namespace foregather::store {

/// Runs by id: 0 is the first that was written.
using RunNames = std::vector<std::string>;

/// Appends comparison `id`. Errors: a run that `runs` does not have.
Status insert_comparison(Database& database, std::int64_t id, const run::Comparison& comparison,
                         const RunNames& runs);

/// All of a database of version 2.
Result<std::vector<run::Comparison>> load_comparisons(Database& database, const RunNames& runs);

}  // namespace foregather::store
