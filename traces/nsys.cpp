#include "traces/nsys.h"

#include <algorithm>
#include <array>

#include "core/base/dense_ids.h"
#include "traces/foreign_sqlite.h"
#include "traces/nsys_events.h"
#include "traces/raw_recording.h"

namespace foregather::traces {
namespace {

constexpr std::array<std::string_view, 2> kNameValue{"name", "value"};

bool is_export(const ForeignDatabase& database) {
  return std::any_of(database.tables().begin(), database.tables().end(), [](const auto& table) {
    return table.name.starts_with("CUPTI_ACTIVITY_KIND_") || table.name == "NVTX_EVENTS" ||
           table.name == "META_DATA_EXPORT" || table.name == "EXPORT_META_DATA";
  });
}

bool is_of_events(const ForeignTable& table) {
  return table.has("start") || table.has("timestamp");
}

/// Visits the rows of a table if there is one.
template <class Visit>
Status each_row(const ForeignDatabase& database, std::string_view name,
                std::span<const std::string_view> columns, const Visit& visit) {
  const ForeignTable* const table = database.table(name);
  if (table == nullptr) return {};
  auto rows = database.rows(*table, columns);
  if (!rows) return tl::unexpected(rows.error());
  for (;;) {
    const auto row = rows->next();
    if (!row) return tl::unexpected(row.error());
    if (!*row) return {};
    visit(*rows);
  }
}

Status read_meta(const ForeignDatabase& database, NsysFacts& facts) {
  constexpr std::array<std::string_view, 4> kShown{
      "EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION", "EXPORT_SCHEMA_VERSION_MAJOR",
      "EXPORT_SCHEMA_VERSION_MINOR"};
  for (const char* table : {"META_DATA_EXPORT", "EXPORT_META_DATA"}) {
    const Status status = each_row(database, table, kNameValue, [&](const ForeignRows& row) {
      const std::string name(row.text(0));
      if (std::find(kShown.begin(), kShown.end(), name) != kShown.end())
        facts.meta.emplace_back(name, row.text(1));
    });
    if (!status) return status;
  }
  return {};
}

Status read_machine(const ForeignDatabase& database, run::Recording& recording) {
  constexpr std::array<std::string_view, 1> kName{"name"}, kEpoch{"utcEpochNs"};
  const Status devices = each_row(database, "TARGET_INFO_GPU", kName, [&](const ForeignRows& row) {
    recording.devices.emplace_back(row.text(0));
  });
  if (!devices) return devices;
  return each_row(database, "TARGET_INFO_SESSION_START_TIME", kEpoch, [&](const ForeignRows& row) {
    if (!row.is_integer(0) || row.integer(0) <= 0) return;
    if (row.integer(0) <= kLatestTime)
      recording.base = row.integer(0);
    else
      recording.warnings.push_back(
          fmt::format("{}: utcEpochNs is {}, expected a time: clocks of several files are put "
                      "together without it",
                      recording.source, row.integer(0)));
  });
}

/// Counts the rows of every table; those of events that no column is made of are unused.
Status count_rows(const ForeignDatabase& database, const NsysEvents& events, NsysTrace& trace) {
  run::RecordedRows& rows = trace.recording.rows;
  for (const ForeignTable& table : database.tables()) {
    const auto known = events.rows_of(table.name);
    const auto count = known ? Result<std::int64_t>(*known) : database.count(table);
    if (!count) return tl::unexpected(count.error());
    if (*count == 0) continue;
    trace.facts.tables.emplace(table.name, *count);
    if (!known && !is_of_events(table)) continue;
    rows.read += *count;
    if (!known) rows.unused.emplace_back(table.name, *count);
  }
  return {};
}

void warn(const std::string& path, std::int64_t missing_texts, NsysTrace& trace) {
  std::vector<std::string>& warnings = trace.recording.warnings;
  if (missing_texts > 0)
    warnings.push_back(fmt::format("{}: names that StringIds lacks: {}", path, missing_texts));
  if (trace.facts.tables.contains("CUPTI_ACTIVITY_KIND_GRAPH_TRACE"))
    warnings.push_back(path +
                       ": CUDA graphs were recorded as wholes, their kernels are not there: " +
                       (trace.facts.is_raw ? "record without --kinds +graph"
                                           : "nsys profile --cuda-graph-trace=node") +
                       " records them");
}

}  // namespace

Result<NsysTrace> read_nsys(const std::string& path) {
  const auto database = ForeignDatabase::open(path);
  if (!database) return tl::unexpected(database.error());
  if (!is_export(*database))
    return fail_at(path,
                   "is a SQLite database without the tables of Nsight Systems, expected an export: "
                   "nsys export --type sqlite");
  NsysTrace trace;
  trace.recording.source = path;
  auto strings = NsysStrings::read(*database);
  if (!strings) return tl::unexpected(strings.error());
  NsysEvents events(*database, *strings, trace);
  if (const Status read = events.read(); !read) return tl::unexpected(read.error());
  for (const Status& status :
       {read_meta(*database, trace.facts), read_machine(*database, trace.recording),
        count_rows(*database, events, trace)})
    if (!status) return tl::unexpected(status.error());
  trace.facts.is_raw = is_raw_recording(*database);
  if (trace.facts.is_raw)
    if (const Status status = read_raw_recording(*database, trace); !status)
      return tl::unexpected(status.error());
  warn(path, strings->missing(), trace);
  return trace;
}

}  // namespace foregather::traces
