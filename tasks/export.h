// The use case of `foregather export`.
#pragma once

#include <string>
#include <vector>

#include "core/base/file.h"
#include "core/base/result.h"
#include "core/run/run.h"

namespace foregather::tasks {

/// A format that export writes.
struct ExportFormat {
  std::string name;
  std::string doc;
};
std::vector<ExportFormat> export_formats();

/// Writes a run into an open file, which stays uncommitted.
Status write_run(run::RunView run, const std::string& format, PendingFile& file);

/// Reads runs ("RUN.db" or "RUN.db:NAME") and writes them to one file: one run, or two in a format
/// that takes two, where the steps that compare compares begin at the same time. Nothing partial is
/// left in a file; "-" is standard output.
Status export_runs(const std::vector<std::string>& locations, const std::string& format,
                   const std::string& output);

}  // namespace foregather::tasks
