#include "tasks/import_parts.h"

#include <utility>

namespace foregather::tasks {

double microseconds(Ns time) { return static_cast<double>(time) / kMicrosecond; }

void write_percent(JsonWriter& json, Ns part, Ns whole) {
  if (whole == 0) {
    json.null();
    return;
  }
  const double percent = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  json.value(static_cast<double>(static_cast<std::int64_t>(percent * 1000 + 0.5)) / 1000);
}

run::RecordedRows rows_of(std::size_t kept, const run::EventCounts& dropped) {
  run::RecordedRows rows;
  rows.kept = rows.read = static_cast<std::int64_t>(kept);
  for (const auto& [reason, n] : dropped) rows.read += n;
  return rows;
}

void take_accounts(ImportedFile& file, run::Recording& recording) {
  file.read = std::move(recording.rows);
  file.dropped = std::move(recording.dropped);
  file.warnings = std::move(recording.warnings);
}

}  // namespace foregather::tasks
