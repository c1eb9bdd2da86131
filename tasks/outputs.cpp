#include "tasks/outputs.h"

#include <algorithm>
#include <filesystem>

#include "tasks/export.h"

namespace foregather::tasks {

bool is_same_file(const std::string& a, const std::string& b) {
  namespace fs = std::filesystem;
  std::error_code error;
  // Absolute, since what does not exist yet stays as it is written.
  const auto file_of = [&](const std::string& path) {
    return fs::weakly_canonical(fs::absolute(written_file(path).value_or(path), error), error);
  };
  const fs::path first = file_of(a), second = file_of(b);
  return !a.empty() && !b.empty() && first == second;
}

Status check_outputs(const std::vector<std::string>& outputs,
                     const std::vector<std::string>& inputs) {
  for (auto output = outputs.begin(); output != outputs.end(); ++output) {
    const auto is_same = [&](const std::string& other) { return is_same_file(*output, other); };
    if (std::any_of(outputs.begin(), output, is_same))
      return fail_at(*output, "is to be two outputs, expected two files");
    if (std::ranges::any_of(inputs, is_same))
      return fail_at(*output, "is an input, expected another file to write");
  }
  return {};
}

namespace {

Status create(const std::string& path, std::optional<PendingFile>& file) {
  if (path.empty()) return {};
  auto created = PendingFile::create(path);
  if (!created) return tl::unexpected(created.error());
  file.emplace(std::move(*created));
  return {};
}

}  // namespace

Result<Outputs> Outputs::open(const std::string& database, const std::string& trace,
                              const std::string& dump) {
  Outputs outputs;
  for (const std::string& path : {database, trace, dump})
    if (!path.empty()) outputs.paths_.push_back(path);
  if (Status apart = check_outputs(outputs.paths_, {}); !apart)
    return tl::unexpected(apart.error());
  if (!database.empty()) {
    auto writer = store::RunWriter::create(database);
    if (!writer) return tl::unexpected(writer.error());
    outputs.database_.emplace(std::move(*writer));
  }
  if (Status made = create(trace, outputs.trace_); !made) return tl::unexpected(made.error());
  if (Status made = create(dump, outputs.dump_); !made) return tl::unexpected(made.error());
  return outputs;
}

Status Outputs::write(std::span<const run::Run> runs, std::string_view dump,
                      const std::vector<std::string>& inputs) {
  if (Status apart = check_outputs(paths_, inputs); !apart) return apart;
  if (database_)
    for (const run::Run& run : runs)
      if (Status written = database_->write(run); !written) return written;
  if (trace_)
    if (Status written = write_run(runs.front(), "chrome", *trace_); !written) return written;
  if (dump_)
    if (Status written = dump_->write(dump); !written) return written;
  if (database_)
    if (Status finished = database_->finish(); !finished) return finished;
  if (trace_)
    if (Status finished = trace_->commit(); !finished) return finished;
  return dump_ ? dump_->commit() : Status{};
}

}  // namespace foregather::tasks
