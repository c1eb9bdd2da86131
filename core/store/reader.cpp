#include "core/store/reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "core/store/location.h"
#include "core/store/row_reader.h"
#include "core/store/schema.h"

namespace foregather::store {
namespace {

using namespace foregather::run;

// What the tables may hold at most: more is damage, not data.
constexpr std::size_t kMostRows = 1'000'000'000;
constexpr std::int64_t kMostRanks = 1 << 20;

struct Names {
  std::vector<std::string> names;
  std::vector<std::int64_t> ids;
};

class Loader {
 public:
  Loader(Database& database, std::int64_t id) : database_(database), id_(id) {}
  Result<Run> load();

 private:
  // Calls read(row reader, row number) for each row of the run.
  template <class Read>
  Status each_row(const char* table, const char* columns, Read&& read);
  Status damaged(const char* table, std::size_t row) const {
    return fail_at(database_.path(), "is damaged: row {} of table {}", row, table);
  }

  Status info();
  Status strings();
  Status classes();
  Status ranks();
  Status streams();
  Status communicators();
  Status steps();
  Status ops();
  Status bindings();
  Status segments();
  Status memory();
  Status causes();
  Status failures();
  Status check_bounds() const;
  StringId string(RowReader& row) { return row.maybe_row<StringId>(run_.strings.size()); }

  Database& database_;
  std::int64_t id_;
  Run run_;
};

template <class Read>
Status Loader::each_row(const char* table, const char* columns, Read&& read) {
  const std::string key = std::string_view(table) == "class_ranks" ? "rank_class, first" : "id";
  auto query = database_.prepare(
      fmt::format("SELECT {} FROM {} WHERE run = ? ORDER BY {}", columns, table, key).c_str());
  if (!query) return tl::unexpected(query.error());
  query->start(id_);
  for (std::size_t number = 0; number < kMostRows; ++number) {
    const auto more = query->next();
    if (!more) return tl::unexpected(more.error());
    if (!*more) return {};
    RowReader row(*query);
    read(row, number);
    if (!row.ok()) return damaged(table, number);
  }
  return damaged(table, kMostRows);
}

Status Loader::info() {
  auto query = database_.prepare(
      "SELECT name, kind, tool, source, source_text, options, hardware, strategy, world_size, "
      "parameters, tokens_per_rank_step, model_flops_per_rank_step, capacity, outside_allocator "
      "FROM run WHERE id = ?");
  if (!query) return tl::unexpected(query.error());
  query->start(id_);
  const auto found = query->next();
  if (!found) return tl::unexpected(found.error());
  if (!*found) return damaged("run", 0);
  RowReader row(*query);
  RunInfo& about = run_.about;
  about.name = row.text();
  about.kind = row.choice(RunKind::measured);
  about.tool = row.text();
  about.source = row.text();
  about.source_text = row.text();
  about.options = row.text();
  about.hardware = row.text();
  about.strategy = row.text();
  about.world_size = row.number<std::uint32_t>();
  about.parameters = row.integer();
  about.tokens_per_rank_step = row.integer();
  about.model_flops_per_rank_step = row.integer();
  about.capacity = row.integer();
  about.outside_allocator = row.integer();
  return row.ok() ? Status{} : damaged("run", 0);
}

Status Loader::strings() {
  bool repeated = false;
  const Status read = each_row("string", "id, text", [&](RowReader& row, std::size_t number) {
    row.id(number);
    repeated = repeated || run_.strings.intern(row.text()) != StringId(number);
  });
  if (!read) return read;
  return repeated ? damaged("string", run_.strings.size()) : Status{};
}

Status Loader::classes() {
  const Status read = each_row("rank_class", "id, name", [&](RowReader& row, std::size_t number) {
    row.id(number);
    run_.classes.push_back({string(row), {}});
  });
  return read ? ranks() : read;
}

Status Loader::ranks() {
  std::int64_t total = 0;
  std::size_t bad = 0;
  const auto add = [&](RowReader& row, std::size_t) {
    const auto rank_class = row.row<ClassRow>(run_.classes.size());
    const auto first = row.number<std::uint32_t>();
    const auto last = row.number<std::uint32_t>();
    total += std::int64_t{last} - first + 1;
    if (!row.ok() || last < first || total > kMostRanks) return void(++bad);
    for (std::uint32_t rank = first; rank <= last; ++rank)
      run_.classes[rank_class.row()].ranks.push_back(rank);
  };
  if (const Status read = each_row("class_ranks", "rank_class, first, last", add); !read)
    return read;
  for (const ClassInfo& info : run_.classes) bad += info.ranks.empty() ? 1 : 0;
  return bad == 0 ? Status{} : damaged("class_ranks", 0);
}

Status Loader::streams() {
  return each_row("stream", "id, rank_class, name, priority",
                  [&](RowReader& row, std::size_t number) {
                    row.id(number);
                    StreamInfo stream;
                    stream.rank_class = row.row<ClassRow>(run_.classes.size());
                    stream.name = string(row);
                    stream.priority = row.number<std::int32_t>();
                    run_.streams.push_back(stream);
                  });
}

Status Loader::communicators() {
  return each_row("communicator", "id, name, ranks, nodes",
                  [&](RowReader& row, std::size_t number) {
                    row.id(number);
                    CommunicatorInfo communicator;
                    communicator.name = string(row);
                    communicator.ranks = row.number<std::uint32_t>();
                    communicator.nodes = row.number<std::uint32_t>();
                    run_.communicators.push_back(communicator);
                  });
}

Status Loader::steps() {
  return each_row("step",
                  "id, rank_class, kind, number, begin_ns, end_ns, host_end_ns, peak_requested, "
                  "peak_allocated, peak_active, peak_reserved, peak_at",
                  [&](RowReader& row, std::size_t number) {
                    row.id(number);
                    StepInfo step;
                    step.rank_class = row.row<ClassRow>(run_.classes.size());
                    step.kind = row.choice(StepKind::other);
                    step.number = row.number<std::uint32_t>();
                    step.begin = row.integer();
                    step.end = row.integer();
                    step.host_end = row.integer();
                    step.peak_requested = row.integer();
                    step.peak_allocated = row.integer();
                    step.peak_active = row.integer();
                    step.peak_reserved = row.integer();
                    step.peak_at = row.maybe_row<OpRow>(kMostRows);
                    run_.steps.push_back(step);
                  });
}

Status Loader::ops() {
  StepRow last_step;
  std::size_t disorder = 0;
  const auto add = [&](RowReader& row, std::size_t number) {
    row.id(number);
    OpRecord op;
    op.step = row.row<StepRow>(run_.steps.size());
    op.stream = row.row<StreamRow>(run_.streams.size());
    op.micro_batch = row.number<std::uint16_t>();
    op.scope = string(row);
    op.phase = row.choice(Phase::other);
    op.kind = row.choice(OpKind::other);
    op.ordinal = row.number<std::uint16_t>();
    op.role = row.choice(Role::other);
    op.unit = string(row);
    op.communicator = row.maybe_row<CommunicatorRow>(run_.communicators.size());
    op.sequence = row.number<std::uint32_t>();
    op.issued = row.integer();
    op.start = row.integer();
    op.transfer = row.integer();
    op.end = row.integer();
    op.alone = row.integer();
    op.reason = row.choice(BoundReason::dependency);
    op.bound_by = row.maybe_row<OpRow>(kMostRows);
    op.bound_by_previous_step = row.flag();
    op.source = string(row);
    op.bytes = row.integer();
    op.wire_bytes = row.integer();
    op.flops = row.integer();
    if (!row.ok()) return;
    disorder += last_step && op.step < last_step ? 1 : 0;
    last_step = op.step;
    run_.ops.append(op);
  };
  const Status read = each_row(
      "op",
      "id, step, stream, micro_batch, scope, phase, kind, ordinal, role, unit, communicator, "
      "sequence, issued_ns, start_ns, transfer_ns, end_ns, alone_ns, reason, bound_by, "
      "bound_by_previous_step, source, bytes, wire_bytes, flops",
      add);
  if (!read) return read;
  return disorder == 0 ? Status{} : damaged("op", 0);
}

Status Loader::bindings() {
  return each_row("binding",
                  "id, step, name, scope, cause, bytes, block_bytes, address, allocated_ns, "
                  "freed_ns, before_op, from_before, still_bound",
                  [&](RowReader& row, std::size_t number) {
                    row.id(number);
                    BindingRecord binding;
                    binding.step = row.row<StepRow>(run_.steps.size());
                    binding.name = string(row);
                    binding.scope = string(row);
                    binding.cause = row.choice(Cause::cache);
                    binding.bytes = row.integer();
                    binding.block_bytes = row.integer();
                    binding.address = static_cast<std::uint64_t>(row.integer());
                    binding.allocated = row.integer();
                    binding.freed = row.integer();
                    binding.before_op = row.maybe_row<OpRow>(run_.ops.size());
                    binding.from_before = row.flag();
                    binding.still_bound = row.flag();
                    run_.bindings.push_back(binding);
                  });
}

Status Loader::segments() {
  return each_row("segment", "id, step, stream, change, large, expandable, time_ns, address, bytes",
                  [&](RowReader& row, std::size_t number) {
                    row.id(number);
                    SegmentRecord segment;
                    segment.step = row.row<StepRow>(run_.steps.size());
                    segment.stream = row.row<StreamRow>(run_.streams.size());
                    segment.change = row.choice(SegmentChange::unmapped);
                    segment.large = row.flag();
                    segment.expandable = row.flag();
                    segment.time = row.integer();
                    segment.address = static_cast<std::uint64_t>(row.integer());
                    segment.bytes = row.integer();
                    run_.segments.push_back(segment);
                  });
}

Status Loader::memory() {
  return each_row("memory", "id, step, time_ns, requested, allocated, active, reserved",
                  [&](RowReader& row, std::size_t number) {
                    row.id(number);
                    MemoryRecord point;
                    point.step = row.row<StepRow>(run_.steps.size());
                    point.time = row.integer();
                    point.requested = row.integer();
                    point.allocated = row.integer();
                    point.active = row.integer();
                    point.reserved = row.integer();
                    run_.memory.push_back(point);
                  });
}

Status Loader::causes() {
  return each_row("peak_cause", "id, step, cause, bytes", [&](RowReader& row, std::size_t number) {
    row.id(number);
    CauseRecord cause;
    cause.step = row.row<StepRow>(run_.steps.size());
    cause.cause = row.choice(Cause::cache);
    cause.bytes = row.integer();
    run_.causes.push_back(cause);
  });
}

Status Loader::failures() {
  return each_row("out_of_memory",
                  "id, step, name, bytes, time_ns, micro_batch, scope, phase, kind, ordinal",
                  [&](RowReader& row, std::size_t number) {
                    row.id(number);
                    FailureRecord failure;
                    failure.step = row.row<StepRow>(run_.steps.size());
                    failure.name = string(row);
                    failure.bytes = row.integer();
                    failure.time = row.integer();
                    failure.micro_batch = row.number<std::uint16_t>();
                    failure.scope = string(row);
                    failure.phase = row.choice(Phase::other);
                    failure.kind = row.choice(OpKind::other);
                    failure.ordinal = row.number<std::uint16_t>();
                    run_.failures.push_back(failure);
                  });
}

// References to ops that were read before the ops' number was known.
Status Loader::check_bounds() const {
  const auto outside = [&](OpRow row) { return row && row.row() >= run_.ops.size(); };
  for (std::size_t i = 0; i < run_.steps.size(); ++i)
    if (outside(run_.steps[i].peak_at)) return damaged("step", i);
  for (std::size_t i = 0; i < run_.ops.size(); ++i)
    if (outside(run_.ops.bound_by[i])) return damaged("op", i);
  return {};
}

Result<Run> Loader::load() {
  constexpr Status (Loader::*kParts[])() = {
      &Loader::info,          &Loader::strings, &Loader::classes, &Loader::streams,
      &Loader::communicators, &Loader::steps,   &Loader::ops,     &Loader::bindings,
      &Loader::segments,      &Loader::memory,  &Loader::causes,  &Loader::failures};
  for (const auto part : kParts)
    if (const Status done = (this->*part)(); !done) return tl::unexpected(done.error());
  if (const Status done = check_bounds(); !done) return tl::unexpected(done.error());
  return std::move(run_);
}

Result<Names> names_of(Database& database) {
  auto query = database.prepare("SELECT id, name FROM run ORDER BY id");
  if (!query) return tl::unexpected(query.error());
  Names found;
  constexpr std::size_t kMostRuns = 1'000'000;
  while (found.ids.size() < kMostRuns) {
    const auto more = query->next();
    if (!more) return tl::unexpected(more.error());
    if (!*more) break;
    found.ids.push_back(query->integer(0));
    found.names.emplace_back(query->text(1));
  }
  return found;
}

// Says what SQLite would call "unable to open database file".
Status check_regular(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status))
    return fail_at(path, "cannot be read: No such file or directory");
  if (std::filesystem::is_directory(status))
    return fail_at(path, "is a directory, expected a run database");
  if (!std::filesystem::is_regular_file(status))
    return fail_at(path, "is not a regular file, expected a run database");
  return {};
}

Result<Database> open_checked(const std::string& path) {
  if (const Status regular = check_regular(path); !regular) return tl::unexpected(regular.error());
  auto database = Database::open(path);
  if (!database) return database;
  if (const Status checked = check_schema(*database); !checked)
    return tl::unexpected(checked.error());
  return database;
}

Result<std::size_t> choose(const std::string& path, const Names& runs,
                           const std::optional<std::string>& name) {
  if (runs.names.empty()) return fail_at(path, "holds no run");
  if (!name) {
    if (runs.names.size() == 1) return std::size_t{0};
    return fail_at(path, "holds {} runs, choose one as {}:NAME: {}", runs.names.size(), path,
                   fmt::join(runs.names, ", "));
  }
  const auto found = std::find(runs.names.begin(), runs.names.end(), *name);
  if (found != runs.names.end()) return static_cast<std::size_t>(found - runs.names.begin());
  return fail_at(path, "holds no run '{}', only {}", *name, fmt::join(runs.names, ", "));
}

}  // namespace

bool is_database(std::string_view content) {
  using namespace std::string_view_literals;
  return content.starts_with("SQLite format 3\0"sv);
}

Result<std::vector<std::string>> run_names(const std::string& path) {
  auto database = open_checked(path);
  if (!database) return tl::unexpected(database.error());
  auto names = names_of(*database);
  if (!names) return tl::unexpected(names.error());
  return std::move(names->names);
}

Result<Run> read_run(const std::string& text) {
  const Location location = parse_location(text);
  auto database = open_checked(location.path);
  if (!database) return tl::unexpected(database.error());
  const auto names = names_of(*database);
  if (!names) return tl::unexpected(names.error());
  const auto chosen = choose(location.path, *names, location.name);
  if (!chosen) return tl::unexpected(chosen.error());
  return Loader(*database, names->ids[*chosen]).load();
}

}  // namespace foregather::store
