// Rows of a run into the tables of a database. Internal to core/store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/base/result.h"
#include "core/run/run.h"
#include "core/store/sqlite.h"

namespace foregather::store {

/// Rows of each table that were inserted before.
struct RowCounts {
  std::size_t strings = 0, classes = 0, streams = 0, communicators = 0, steps = 0, ops = 0,
              bindings = 0, segments = 0, memory = 0, causes = 0, failures = 0, threads = 0,
              calls = 0, waits = 0, works = 0, warnings = 0;

  /// As if all rows of `run` had been inserted, too. Its strings are all there ever were.
  void count(run::RunView run);
};

Status insert_info(Database& database, std::int64_t id, const run::RunInfo& info);

/// The warnings of a run that has `before` of them already.
Status insert_warnings(Database& database, std::int64_t id, std::size_t before,
                       std::span<const std::string> warnings);

/// All rows of `run`, and of its strings those that are new. Ids go on where `before` ends;
/// references are ids already.
Status insert_tables(Database& database, std::int64_t id, run::RunView run,
                     const RowCounts& before);

}  // namespace foregather::store
