#include "core/store/sweep_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/base/file.h"
#include "core/store/reader.h"
#include "core/store/schema.h"
#include "core/store/sweep_reader.h"

namespace foregather::store {
namespace {

constexpr auto kCommitEvery = std::chrono::milliseconds(200);

constexpr const char* kInsertPoint =
    "INSERT INTO point VALUES "
    "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";

Status insert_pairs(Database& database, const char* insert,
                    const std::vector<std::pair<std::string, std::string>>& pairs) {
  auto row = database.prepare(insert);
  if (!row) return tl::unexpected(row.error());
  for (std::size_t i = 0; i < pairs.size(); ++i)
    if (Status done = row->run(static_cast<std::int64_t>(i), std::string_view(pairs[i].first),
                               std::string_view(pairs[i].second));
        !done)
      return done;
  return {};
}

Status insert_info(Database& database, const run::SweepInfo& info) {
  auto insert = database.prepare("INSERT INTO sweep VALUES (0,?,?,?,?,?)");
  if (!insert) return tl::unexpected(insert.error());
  if (Status done = insert->run(std::string_view(info.tool), std::string_view(info.source),
                                std::string_view(info.source_text), std::string_view(info.options),
                                info.points);
      !done)
    return done;
  if (Status done = insert_pairs(database, "INSERT INTO sweep_axis VALUES (?,?,?)", info.axes);
      !done)
    return done;
  return insert_pairs(database, "INSERT INTO sweep_input VALUES (?,?,?)", info.inputs);
}

Status create_sweep(Database& database, const run::SweepInfo& info) {
  if (Status begun = database.execute("BEGIN"); !begun) return begun;
  if (Status created = create_schema(database); !created) return created;
  if (Status inserted = insert_info(database, info); !inserted) return inserted;
  return database.execute("COMMIT");
}

std::optional<std::string_view> text_or_null(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional<std::string_view>(text);
}

std::string settings_of(const std::vector<std::string>& keys, const run::SweepPoint& point) {
  std::string text;
  for (std::size_t i = 0; i < keys.size(); ++i) text += keys[i] + "=" + point.values[i] + "\n";
  return text;
}

Status insert_point(Statement& insert, const std::vector<std::string>& keys,
                    const run::SweepPoint& point) {
  using Times = run::PointFigures::Times;
  using Memory = run::PointFigures::Memory;
  using Peaks = run::PointFigures::Peaks;
  const run::PointFigures& figures = point.figures;
  const auto known = [&](std::int64_t value) {
    return point.status == run::PointStatus::failed ? std::nullopt : std::optional(value);
  };
  const auto time = [&](auto Times::*member) {
    return figures.times ? std::optional<std::int64_t>((*figures.times).*member) : std::nullopt;
  };
  const std::optional<Memory>& memory = figures.memory;
  const auto size = [&](Bytes Memory::*member) {
    return memory ? std::optional((*memory).*member) : std::nullopt;
  };
  const auto peak = [&](Peaks Memory::*peaks, Bytes Peaks::*member) {
    return memory ? std::optional((*memory).*peaks.*member) : std::nullopt;
  };
  const std::string settings = settings_of(keys, point);
  return insert.run(
      point.index, static_cast<std::int64_t>(point.status), std::string_view(settings),
      text_or_null(point.error), text_or_null(figures.hardware), text_or_null(figures.strategy),
      known(figures.world_size), known(figures.parameters), known(figures.tokens_per_rank_step),
      size(&Memory::capacity), size(&Memory::outside_allocator), time(&Times::step),
      time(&Times::first_step), time(&Times::compute_busy), time(&Times::comm_busy),
      time(&Times::exposed_comm), time(&Times::comm_wait), time(&Times::host_bound),
      time(&Times::on_wire), time(&Times::ops), figures.tokens_per_second, figures.mfu,
      peak(&Memory::peaks, &Peaks::requested), peak(&Memory::peaks, &Peaks::allocated),
      peak(&Memory::peaks, &Peaks::active), peak(&Memory::peaks, &Peaks::reserved),
      peak(&Memory::first_peaks, &Peaks::requested), peak(&Memory::first_peaks, &Peaks::allocated),
      peak(&Memory::first_peaks, &Peaks::active), peak(&Memory::first_peaks, &Peaks::reserved),
      memory ? memory->margin : std::nullopt,
      memory && memory->oom_op ? text_or_null(*memory->oom_op) : std::nullopt,
      memory ? memory->oom_bytes : std::nullopt, figures.warnings);
}

Result<bool> is_empty(Database& database) {
  return database.integer("SELECT count(*) FROM (SELECT 1 FROM sqlite_schema LIMIT 1)")
      .map([](std::int64_t objects) { return objects == 0; });
}

// Says what SQLite would call "unable to open database file". What is not there is made, but not
// where a link leads.
Status check_writable(const std::string& path) {
  if (is_planted(path))
    return fail_at(path,
                   "is another user's link in a directory that all may write to: expected a "
                   "database, or another directory");
  int file = ::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (file < 0 && errno == ENOENT)
    file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0)
    return fail_at(path, "cannot be written: {}",
                   errno == EEXIST ? "it is a link to nothing" : std::strerror(errno));
  struct stat status {};
  const bool is_regular = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  ::close(file);
  if (!is_regular) return fail_at(path, "is no regular file, expected one to write");
  return {};
}

// In what two sweeps differ; empty: in nothing.
std::string difference(const run::SweepInfo& a, const run::SweepInfo& b) {
  if (a.axes != b.axes) return "other values of --vary";
  if (a.options != b.options) return "other --set, --what-if or --where";
  if (a.source_text != b.source_text || a.source != b.source) return "another SOURCE";
  if (a.points != b.points) return "another grid";
  const bool are_known = !a.inputs.empty() && !b.inputs.empty();  // older versions kept none
  if (!are_known) return a.tool == b.tool ? "" : "made by " + a.tool;
  if (a.inputs.size() != b.inputs.size()) return "other files that it reads";
  for (std::size_t i = 0; i < a.inputs.size(); ++i)
    if (a.inputs[i] != b.inputs[i]) return "another " + b.inputs[i].first;
  return a.tool == b.tool ? "" : "made by " + a.tool;
}

}  // namespace

void PointSet::add(std::int64_t index) {
  if (ranges_.empty() || ranges_.back().second != index) ranges_.emplace_back(index, index);
  ++ranges_.back().second;
  ++size_;
}

bool PointSet::contains(std::int64_t index) const {
  const auto behind =
      std::upper_bound(ranges_.begin(), ranges_.end(), index,
                       [](std::int64_t at, const auto& range) { return at < range.first; });
  return behind != ranges_.begin() && index < std::prev(behind)->second;
}

Result<SweepWriter> SweepWriter::begin(Database database, const run::SweepInfo& info) {
  std::vector<std::string> keys;
  for (const auto& axis : info.axes) keys.push_back(axis.first);
  SweepWriter writer(std::move(database), std::move(keys));
  auto insert = writer.database_.prepare(kInsertPoint);
  if (!insert) return tl::unexpected(insert.error());
  writer.insert_.emplace(std::move(*insert));
  return writer;
}

Result<SweepWriter> SweepWriter::create(const std::string& path, const run::SweepInfo& info) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored))
    return fail_at(path, "exists: go on with it by --resume, or name another file");
  return resume(path, info);
}

Result<SweepWriter> SweepWriter::resume(const std::string& path, const run::SweepInfo& info) {
  std::error_code ignored;
  const bool was_there = std::filesystem::exists(path, ignored);
  if (const Status writable = check_writable(path); !writable)
    return tl::unexpected(writable.error());
  auto database = Database::open_in_place(path);
  if (!database) return tl::unexpected(database.error());
  const auto fresh = is_empty(*database);
  if (!fresh) return tl::unexpected(fresh.error());
  if (*fresh) {
    if (Status created = create_sweep(*database, info); !created) {
      if (!was_there) {
        (void)database->finish();
        ::unlink(path.c_str());
      }
      return tl::unexpected(created.error());
    }
    auto writer = begin(std::move(*database), info);
    if (writer) writer->is_new_ = !was_there;
    return writer;
  }
  const auto version = check_schema(*database);
  if (!version) return tl::unexpected(version.error());
  const auto there = read_sweep_info(*database, *version);
  if (!there) return tl::unexpected(there.error());
  if (const std::string differs = difference(*there, info); !differs.empty())
    return fail_at(path, "is another sweep: {}. Name another file, or repeat its command", differs);
  PointSet present;
  auto query = database->prepare("SELECT id FROM point ORDER BY id");
  if (!query) return tl::unexpected(query.error());
  while (true) {
    const auto more = query->next();
    if (!more) return tl::unexpected(more.error());
    if (!*more) break;
    present.add(query->integer(0));
  }
  auto writer = begin(std::move(*database), info);
  if (writer) writer->present_ = std::move(present);
  return writer;
}

Status SweepWriter::commit() {
  if (!in_transaction_) return {};
  in_transaction_ = false;
  return database_.execute("COMMIT");
}

Status SweepWriter::add(const run::SweepPoint& point) {
  if (!in_transaction_) {
    if (Status begun = database_.execute("BEGIN"); !begun) return begun;
    in_transaction_ = true;
    begun_ = std::chrono::steady_clock::now();
  }
  if (Status inserted = insert_point(*insert_, keys_, point); !inserted) return inserted;
  return std::chrono::steady_clock::now() - begun_ < kCommitEvery ? Status{} : commit();
}

Status SweepWriter::finish() {
  if (Status done = commit(); !done) return done;
  insert_.reset();
  return database_.finish();
}

void SweepWriter::abandon() {
  (void)finish();
  if (is_new_) ::unlink(database_.path().c_str());
}

namespace {

// What would be lost if a sweep that is there were replaced by one of these points, ascending.
Status check_replaced(const std::string& path, const run::SweepInfo& info,
                      const std::vector<std::int64_t>& points) {
  if (!is_run(path)) return {};
  if (!is_sweep(path)) return fail_at(path, "exists, and holds no sweep: name another file");
  auto there = SweepReader::open(path);
  if (!there) return tl::unexpected(there.error());
  if (const std::string differs = difference(there->info(), info); !differs.empty())
    return fail_at(path, "exists, as another sweep ({}): name another file", differs);
  while (true) {
    const auto point = there->next();
    if (!point) return tl::unexpected(point.error());
    if (!*point) return {};
    if (!std::ranges::binary_search(points, (*point)->index))
      return fail_at(path,
                     "exists, with points that none of these databases has: name another file");
  }
}

}  // namespace

Result<std::int64_t> merge_sweeps(const std::vector<std::string>& paths,
                                  const std::string& output) {
  auto file = PendingFile::create(output);
  if (!file) return tl::unexpected(file.error());
  if (file->temporary_path().empty())
    return fail_at(output, "is no regular file, expected one to write");
  std::optional<run::SweepInfo> info;
  std::vector<SweepReader> readers;
  for (const std::string& path : paths) {
    auto reader = SweepReader::open(path);
    if (!reader) return tl::unexpected(reader.error());
    if (!info) info = reader->info();
    if (const std::string differs = difference(reader->info(), *info); !differs.empty())
      return fail_at(path, "is no part of the same sweep as {}: {}", paths.front(), differs);
    readers.push_back(std::move(*reader));
  }
  auto database = Database::create(file->temporary_path(), output);
  if (!database) return tl::unexpected(database.error());
  if (Status created = create_sweep(*database, *info); !created)
    return tl::unexpected(created.error());
  if (Status begun = database->execute("BEGIN"); !begun) return tl::unexpected(begun.error());
  std::vector<std::int64_t> points;
  std::vector<std::string> keys;
  for (const auto& axis : info->axes) keys.push_back(axis.first);
  {
    auto insert = database->prepare(kInsertPoint);
    if (!insert) return tl::unexpected(insert.error());
    std::vector<std::optional<run::SweepPoint>> next(readers.size());
    const auto advance = [&](std::size_t i) {
      return readers[i].next().map(
          [&](std::optional<run::SweepPoint> point) { next[i] = std::move(point); });
    };
    for (std::size_t i = 0; i < readers.size(); ++i)
      if (const auto read = advance(i); !read) return tl::unexpected(read.error());
    while (true) {
      std::optional<std::size_t> first;
      for (std::size_t i = 0; i < next.size(); ++i)
        if (next[i] && (!first || next[i]->index < next[*first]->index)) first = i;
      if (!first) break;
      const run::SweepPoint point = *next[*first];
      points.push_back(point.index);
      for (std::size_t i = 0; i < next.size(); ++i) {
        if (!next[i] || next[i]->index != point.index) continue;
        if (*next[i] != point)
          return fail_at(paths[i], "point {} differs from that of {}", point.index, paths[*first]);
        if (const auto read = advance(i); !read) return tl::unexpected(read.error());
      }
      if (Status inserted = insert_point(*insert, keys, point); !inserted)
        return tl::unexpected(inserted.error());
    }
  }
  readers.clear();
  if (const Status kept = check_replaced(output, *info, points); !kept)
    return tl::unexpected(kept.error());
  if (Status done = database->execute("COMMIT"); !done) return tl::unexpected(done.error());
  if (Status done = database->finish(); !done) return tl::unexpected(done.error());
  if (Status done = file->commit(); !done) return tl::unexpected(done.error());
  return std::ssize(points);
}

}  // namespace foregather::store
