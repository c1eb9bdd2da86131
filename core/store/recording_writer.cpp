#include "core/store/recording_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/store/schema.h"

namespace foregather::store {
namespace {

constexpr std::int64_t kRun = 0;  ///< the only one of its file

Result<Database> with_tables(Database&& database) {
  const Status done =
      database.execute("BEGIN").and_then([&] { return create_schema(database); }).and_then([&] {
        return database.execute("COMMIT");
      });
  if (!done) return tl::unexpected(done.error());
  return std::move(database);
}

}  // namespace

Result<std::unique_ptr<RecordingWriter>> RecordingWriter::create(const std::string& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0 && errno == EEXIST)
    return fail_at(path,
                   "exists already: a recording is written in place, expected the name of a new "
                   "file");
  if (file < 0) return fail_at(path, "cannot be written: {}", std::strerror(errno));
  ::close(file);
  auto database = Database::create_live(path).and_then(with_tables);
  if (!database) {
    ::unlink(path.c_str());
    return tl::unexpected(database.error());
  }
  return std::unique_ptr<RecordingWriter>(new RecordingWriter(std::move(*database), path));
}

RecordingWriter::~RecordingWriter() = default;

run::ClassRow RecordingWriter::add(const run::ClassInfo& row) {
  return run::ClassRow(written_.classes + pending_.add(row).row());
}
run::StreamRow RecordingWriter::add(const run::StreamInfo& row) {
  return run::StreamRow(written_.streams + pending_.add(row).row());
}
run::CommunicatorRow RecordingWriter::add(const run::CommunicatorInfo& row) {
  return run::CommunicatorRow(written_.communicators + pending_.add(row).row());
}
run::StepRow RecordingWriter::add(const run::StepInfo& row) {
  return run::StepRow(written_.steps + pending_.add(row).row());
}
run::ThreadRow RecordingWriter::add(const run::ThreadInfo& row) {
  return run::ThreadRow(written_.threads + pending_.add(row).row());
}
run::HostCallRow RecordingWriter::add(const run::HostCallRecord& row) {
  return run::HostCallRow(written_.calls + pending_.add(row).row());
}
run::OpRow RecordingWriter::add(const run::OpRecord& row) {
  return run::OpRow(written_.ops + pending_.add(row).row());
}

void RecordingWriter::change(run::StepRow step, const run::StepInfo& info) {
  if (step.row() >= written_.steps)
    pending_.steps[step.row() - written_.steps] = info;
  else
    changes_.emplace_back(step, info);
}

Status RecordingWriter::write_changes() {
  auto statement = database_.prepare(
      "UPDATE step SET kind = ?, begin_ns = ?, end_ns = ?, host_end_ns = ?, peak_requested = ?, "
      "peak_allocated = ?, peak_active = ?, peak_reserved = ?, peak_at = ? WHERE run = ? AND id = "
      "?");
  if (!statement) return tl::unexpected(statement.error());
  for (const auto& [row, step] : changes_) {
    std::optional<std::int64_t> peak_at;
    if (step.peak_at) peak_at = step.peak_at.row();
    const Status done =
        statement->run(static_cast<std::int64_t>(step.kind), step.begin, step.end, step.host_end,
                       step.peak_requested, step.peak_allocated, step.peak_active,
                       step.peak_reserved, peak_at, kRun, std::int64_t{row.row()});
    if (!done) return done;
  }
  changes_.clear();
  return {};
}

Status RecordingWriter::write() {
  if (!has_info_) {
    pending_.about.state = run::RunState::under_way;
    if (Status done = insert_info(database_, kRun, pending_.about); !done) return done;
    has_info_ = true;
  }
  if (Status done = insert_tables(database_, kRun, pending_, written_); !done) return done;
  written_.count(pending_);
  run::Run next;
  next.strings = std::move(pending_.strings);
  pending_ = std::move(next);
  return write_changes();
}

Status RecordingWriter::commit() {
  if (Status done = database_.execute("BEGIN"); !done) return done;
  if (Status done = write(); !done) return done;
  return database_.execute("COMMIT");
}

Status RecordingWriter::finish(run::RunState state, std::span<const std::string> warnings) {
  if (Status done = commit(); !done) return done;
  if (Status done = insert_warnings(database_, kRun, written_.warnings, warnings); !done)
    return done;
  {
    auto statement = database_.prepare("UPDATE recording SET state = ? WHERE run = ?");
    if (!statement) return tl::unexpected(statement.error());
    if (Status done = statement->run(static_cast<std::int64_t>(state), kRun); !done) return done;
  }
  if (Status done = without_journal(); !done) return done;
  return database_.finish();
}

// What is complete is one file.
Status RecordingWriter::without_journal() {
  return database_.execute("PRAGMA journal_mode = DELETE");
}

void RecordingWriter::discard() {
  (void)without_journal();
  (void)database_.finish();
  ::unlink(path_.c_str());
}

}  // namespace foregather::store
