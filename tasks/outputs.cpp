#include "tasks/outputs.h"

#include <filesystem>

#include "tasks/export.h"

namespace foregather::tasks {

bool is_same_file(const std::string& a, const std::string& b) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path first = fs::weakly_canonical(a, error);
  const fs::path second = fs::weakly_canonical(b, error);
  return !a.empty() && !b.empty() && first == second;
}

Result<Outputs> Outputs::open(const std::string& database, const std::string& trace) {
  if (is_same_file(database, trace))
    return fail_at(trace, "is both the database and the trace, expected two files");
  Outputs outputs;
  outputs.database_path_ = database;
  outputs.trace_path_ = trace;
  if (!database.empty()) {
    auto writer = store::RunWriter::create(database);
    if (!writer) return tl::unexpected(writer.error());
    outputs.database_.emplace(std::move(*writer));
  }
  if (!trace.empty()) {
    auto file = PendingFile::create(trace);
    if (!file) return tl::unexpected(file.error());
    outputs.trace_.emplace(std::move(*file));
  }
  return outputs;
}

Status Outputs::write(std::span<const run::Run> runs, const std::vector<std::string>& inputs) {
  for (const std::string& output : {database_path_, trace_path_})
    for (const std::string& input : inputs)
      if (is_same_file(output, input))
        return fail_at(output, "is an input, expected another file to write");
  if (database_)
    for (const run::Run& run : runs)
      if (Status written = database_->write(run); !written) return written;
  if (trace_)
    if (Status written = write_run(runs.front(), "chrome", *trace_); !written) return written;
  if (database_)
    if (Status finished = database_->finish(); !finished) return finished;
  return trace_ ? trace_->commit() : Status{};
}

}  // namespace foregather::tasks
