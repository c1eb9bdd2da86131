#include "core/store/sweep_reader.h"

#include "core/store/reader.h"
#include "core/store/row_reader.h"
#include "core/store/schema.h"

namespace foregather::store {
namespace {

std::optional<std::string> unless_empty(std::string text) {
  return text.empty() ? std::nullopt : std::optional(std::move(text));
}

// "KEY=VALUE" lines, in the order of the axes; false if they are others.
bool take_values(std::string_view settings, const run::SweepInfo& info, run::SweepPoint& point) {
  for (std::size_t i = 0; i < info.axes.size(); ++i) {
    const std::string head = info.axes[i].first + "=";
    if (!settings.starts_with(head)) return false;
    settings.remove_prefix(head.size());
    // A value may hold line ends: it lasts until the next key.
    const auto end = i + 1 < info.axes.size() ? settings.find("\n" + info.axes[i + 1].first + "=")
                                              : settings.size() - 1;
    if (settings.empty() || end == std::string_view::npos || settings[end] != '\n') return false;
    point.values.emplace_back(settings.substr(0, end));
    settings.remove_prefix(end + 1);
  }
  return settings.empty();
}

bool read_point(const Statement& row, const run::SweepInfo& info, run::SweepPoint& point) {
  RowReader read(row);
  point.index = read.integer();
  point.status = read.choice(run::PointStatus::failed);
  if (!take_values(read.text(), info, point)) return false;
  point.error = read.text();
  run::PointFigures& figures = point.figures;
  figures.hardware = read.text();
  figures.strategy = read.text();
  const bool failed = point.status == run::PointStatus::failed;
  const std::int64_t world = read.integer();
  if (!failed) figures.world_size = world;
  for (std::int64_t run::PointFigures::*member :
       {&run::PointFigures::parameters, &run::PointFigures::tokens_per_rank_step})
    figures.*member = read.integer();
  using Memory = run::PointFigures::Memory;
  Memory memory;
  bool has_memory = true;
  const auto take = [&](std::int64_t& into, bool& is_there) {
    const auto value = read.maybe_integer();
    is_there = is_there && value;
    into = value.value_or(0);
  };
  take(memory.capacity, has_memory);
  take(memory.outside_allocator, has_memory);
  using Times = run::PointFigures::Times;
  Times times;
  bool has_times = true;
  take(times.step, has_times);
  times.first_step = read.maybe_integer();
  take(times.compute_busy, has_times);
  take(times.comm_busy, has_times);
  take(times.exposed_comm, has_times);
  times.comm_wait = read.maybe_integer();
  take(times.host_bound, has_times);
  times.on_wire = read.maybe_integer();
  take(times.ops, has_times);
  if (has_times) figures.times = times;
  figures.tokens_per_second = read.maybe_real();
  figures.mfu = read.maybe_real();
  using Peaks = run::PointFigures::Peaks;
  for (Peaks* peaks : {&memory.peaks, &memory.first_peaks})
    for (std::int64_t Peaks::*member :
         {&Peaks::requested, &Peaks::allocated, &Peaks::active, &Peaks::reserved})
      take(peaks->*member, has_memory);
  memory.margin = read.maybe_integer();
  memory.oom_op = unless_empty(read.text());
  memory.oom_bytes = read.maybe_integer();
  if (has_memory) figures.memory = std::move(memory);
  figures.warnings = read.integer();
  return read.ok() && point.index >= 0 && point.index < info.points;
}

}  // namespace

bool is_sweep(const std::string& path) {
  if (!is_run(path)) return false;
  return SweepReader::open(path).has_value();
}

namespace {

Result<std::vector<std::pair<std::string, std::string>>> read_pairs(Database& database,
                                                                    const char* select) {
  auto query = database.prepare(select);
  if (!query) return tl::unexpected(query.error());
  std::vector<std::pair<std::string, std::string>> pairs;
  while (true) {
    const auto more = query->next();
    if (!more) return tl::unexpected(more.error());
    if (!*more) return pairs;
    pairs.emplace_back(std::string(query->text(0)), std::string(query->text(1)));
  }
}

}  // namespace

Result<run::SweepInfo> read_sweep_info(Database& database, std::int64_t version) {
  const auto sweeps = database.integer("SELECT count(*) FROM (SELECT 1 FROM sweep LIMIT 2)");
  if (!sweeps) return tl::unexpected(sweeps.error());
  if (*sweeps != 1) return fail_at(database.path(), "holds no sweep");
  run::SweepInfo info;
  {
    auto query = database.prepare("SELECT tool, source, source_text, options, points FROM sweep");
    if (!query) return tl::unexpected(query.error());
    if (const auto row = query->next(); !row) return tl::unexpected(row.error());
    RowReader read(*query);
    info.tool = read.text();
    info.source = read.text();
    info.source_text = read.text();
    info.options = read.text();
    info.points = read.integer();
  }
  auto axes = read_pairs(database, "SELECT name, written FROM sweep_axis ORDER BY id");
  if (!axes) return tl::unexpected(axes.error());
  info.axes = std::move(*axes);
  if (version < kFirstWithInputs) return info;
  auto inputs = read_pairs(database, "SELECT path, digest FROM sweep_input ORDER BY id");
  if (!inputs) return tl::unexpected(inputs.error());
  info.inputs = std::move(*inputs);
  return info;
}

Result<SweepReader> SweepReader::open(const std::string& path) {
  auto opened = Database::open(path);
  if (!opened) return tl::unexpected(opened.error());
  auto database = std::make_unique<Database>(std::move(*opened));
  const auto version = check_schema(*database);
  if (!version) return tl::unexpected(version.error());
  constexpr std::int64_t kFirstWithSweeps = 3;
  if (*version < kFirstWithSweeps) return fail_at(path, "holds no sweep");
  auto info = read_sweep_info(*database, *version);
  if (!info) return tl::unexpected(info.error());
  auto query = database->prepare("SELECT * FROM point ORDER BY id");
  if (!query) return tl::unexpected(query.error());
  return SweepReader(std::move(database), std::move(*query), std::move(*info));
}

Result<std::optional<run::SweepPoint>> SweepReader::next() {
  const auto more = query_.next();
  if (!more) return tl::unexpected(more.error());
  if (!*more) return std::optional<run::SweepPoint>();
  run::SweepPoint point;
  if (!read_point(query_, info_, point))
    return fail_at(database_->path(), "is damaged: a row of table point does not fit");
  return std::optional(std::move(point));
}

}  // namespace foregather::store
