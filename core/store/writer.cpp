#include "core/store/writer.h"

#include "core/store/comparisons.h"
#include "core/store/row_inserts.h"
#include "core/store/schema.h"
#include "core/store/sweep_reader.h"

namespace foregather::store {
using run::RunView;

Result<RunWriter> RunWriter::create(const std::string& path) {
  if (is_sweep(path)) return fail_at(path, "holds a sweep, which stays: name another file");
  auto file = PendingFile::create(path);
  if (!file) return tl::unexpected(file.error());
  const bool in_memory = file->temporary_path().empty();
  auto database = Database::create(in_memory ? ":memory:" : file->temporary_path(), path);
  if (!database) return tl::unexpected(database.error());
  if (const Status begun = database->execute("BEGIN"); !begun) return tl::unexpected(begun.error());
  if (const Status created = create_schema(*database); !created)
    return tl::unexpected(created.error());
  return RunWriter(std::move(*file), std::move(*database), in_memory);
}

Status RunWriter::write(RunView run) {
  const auto id = static_cast<std::int64_t>(names_.size());
  names_.push_back(run.about.name);
  if (Status done = insert_info(database_, id, run.about); !done) return done;
  return insert_tables(database_, id, run, {});
}

Status RunWriter::write(const run::Comparison& comparison) {
  const Status done = insert_comparison(database_, comparisons_, comparison, names_);
  if (done) ++comparisons_;
  return done;
}

Status RunWriter::finish() {
  if (Status done = database_.execute("COMMIT"); !done) return done;
  if (in_memory_) {
    const auto bytes = database_.serialize();
    if (!bytes) return tl::unexpected(bytes.error());
    if (Status done = file_.write(*bytes); !done) return done;
  }
  if (Status done = database_.finish(); !done) return done;
  return file_.commit();
}

}  // namespace foregather::store
