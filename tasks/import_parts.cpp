#include "tasks/import_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/text.h"

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

MemoryUses memory_uses(const run::Recording& recording) {
  MemoryUses uses;
  const run::MemoryColumns& rows = recording.memory;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    MemoryUse& use = uses[std::string(recording.text(rows.device[i]))];
    ++use.events;
    use.peak_allocated = std::max(use.peak_allocated, rows.total_allocated[i]);
    use.peak_reserved = std::max(use.peak_reserved, rows.total_reserved[i]);
  }
  return uses;
}

void describe_memory(ImportedFile& file, const MemoryUses& uses) {
  const auto total = [](Bytes bytes) { return bytes == 0 ? "not known" : format_bytes(bytes); };
  for (const auto& [device, use] : uses)
    file.rows.push_back({"memory of " + device, total(use.peak_allocated),
                         fmt::format("reserved {}", total(use.peak_reserved))});
}

void write_memory(JsonWriter& json, const MemoryUses& uses) {
  json.key("memory").begin_object();
  for (const auto& [device, use] : uses)
    json.key(device)
        .begin_object()
        .field("n", use.events)
        .field("peak_total_allocated", use.peak_allocated)
        .field("peak_total_reserved", use.peak_reserved)
        .end_object();
  json.end_object();
}

run::RecordedRows rows_of(std::size_t kept, const run::EventCounts& dropped) {
  run::RecordedRows rows;
  rows.kept = rows.read = static_cast<std::int64_t>(kept);
  for (const auto& [reason, n] : dropped) rows.read += n;
  return rows;
}

void take_accounts(ImportedFile& file, run::Recording& recording, std::int64_t duplicates) {
  file.read = std::move(recording.rows);
  file.dropped = std::move(recording.dropped);
  file.warnings = std::move(recording.warnings);
  if (duplicates > 0)
    file.warnings.push_back(fmt::format(
        "{}: {} of {} activities {} recorded again (same name, lane, start and end), and counted "
        "again: numbers of ops and sums of their times are too high by that",
        recording.source, duplicates, recording.activities.size(), duplicates == 1 ? "is" : "are"));
}

}  // namespace foregather::tasks
