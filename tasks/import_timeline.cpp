#include <fmt/format.h>

#include <memory>

#include "core/base/text.h"
#include "core/compare/recorded_busy.h"
#include "core/compare/recorded_timeline.h"
#include "tasks/import_parts.h"
#include "tasks/importers.h"
#include "traces/timeline.h"

namespace foregather::tasks {
namespace {

struct ImportedTimeline {
  compare::TimelineFigures figures;
  std::int64_t events = 0;
  Bytes file_bytes = 0, text_bytes = 0;
};

void write_timeline(JsonWriter& json, const ImportedTimeline& imported) {
  const compare::TimelineFigures& figures = imported.figures;
  json.field("format", "timeline")
      .field("bytes", imported.file_bytes)
      .field("raw_bytes", imported.text_bytes)
      .field("events", imported.events)
      .field("pids", figures.processes)
      .field("lanes", figures.lanes);
  write_counts(json, "lane_kinds", figures.lane_kinds);
  json.key("names").begin_object();
  for (const auto& [name, use] : figures.names)
    json.key(name).begin_array().value(use.count).value(microseconds(use.time)).end_array();
  json.end_object();
  json.key("steps").begin_array();
  for (const auto& [number, step] : figures.steps)
    json.begin_array()
        .value(number)
        .value(step.activities)
        .value(microseconds(step.last_end - step.first_start))
        .end_array();
  json.end_array();
  json.field("span_us", microseconds(figures.last_end - figures.first_start))
      .field("overlapping_pairs_in_lane", figures.overlapping_pairs);
}

void describe(ImportedFile& file, const ImportedTimeline& imported) {
  const compare::TimelineFigures& figures = imported.figures;
  file.what = "pipeline timeline";
  file.rows.push_back({"events", format_count(imported.events),
                       fmt::format("{} lanes of {} processes", figures.lanes, figures.processes)});
  file.rows.push_back({"span", format_time(figures.last_end - figures.first_start), ""});
  file.rows.push_back({"overlapping neighbours", format_count(figures.overlapping_pairs), ""});
  for (const auto& [number, step] : figures.steps)
    file.rows.push_back({fmt::format("step {}", number),
                         format_time(step.last_end - step.first_start),
                         fmt::format("{} events", format_count(step.activities))});
}

Result<ImportedFile> import_timeline(const ImportSource& source) {
  auto trace = traces::read_timeline(source.text, source.member.name);
  if (!trace) return tl::unexpected(trace.error());
  ImportedFile file;
  take_accounts(file, trace->recording, compare::duplicate_activities(trace->recording));
  const auto recording = std::make_shared<const run::Recording>(std::move(trace->recording));
  file.recording = recording;
  auto imported = std::make_shared<ImportedTimeline>();
  imported->figures = compare::timeline_figures(*recording);
  imported->events = static_cast<std::int64_t>(recording->activities.size());
  imported->file_bytes = source.file_bytes;
  imported->text_bytes = trace->text_bytes;
  describe(file, *imported);
  // The figures have views into the recording.
  file.write_json = [imported, recording](JsonWriter& json) { write_timeline(json, *imported); };
  return file;
}

}  // namespace

const Importer kTimelineImporter{"a pipeline timeline (JSON)", traces::is_timeline,
                                 import_timeline};

}  // namespace foregather::tasks
