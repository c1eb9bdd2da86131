#include "core/base/json_writer.h"
#include "tasks/search.h"
#include "tasks/sweep_rows.h"

namespace foregather::tasks {
namespace {

constexpr int kSearchSchema = 1;

template <class T>
void field_or_null(JsonWriter& json, std::string_view name, const std::optional<T>& value) {
  if (value)
    json.field(name, *value);
  else
    json.key(name).null();
}

void write_best(JsonWriter& json, const SearchReport& report, const SearchBest& best) {
  json.begin_object();
  write_fields(json, report.info, best.point);
  json.field("command", std::string_view(best.command));
  json.field("device_bytes", best.memory);
  json.field("step_time_bound_ns", best.time_bound);
  json.field("device_bytes_bound", best.memory_bound);
  json.field("gap", best.gap);
  json.field("limited_by", best.limited_by);
  json.field("because", std::string_view(best.because));
  json.key("critical_path").begin_object();
  json.field("compute_ns", best.path.compute);
  json.field("comm_ns", best.path.comm);
  json.field("host_ns", best.path.host);
  json.field("other_ns", best.path.other);
  json.end_object();
  json.end_object();
}

void write_blocks(JsonWriter& json, const BlockSearch& search) {
  json.begin_object();
  json.field("blocks", search.blocks);
  json.field("simulated", search.simulated);
  json.field("better", search.is_best);
  json.field("proved", search.is_proved);
  field_or_null(json, "floor", search.floor);
  json.field("gap", search.gap);
  json.field("solver", std::string_view(search.solver));
  json.field("no_floor", std::string_view(search.no_floor));
  json.end_object();
}

void write_closest(JsonWriter& json, const SearchReport& report, const SearchMiss& miss) {
  json.begin_object();
  json.key("settings").begin_object();
  for (std::size_t i = 0; i < miss.values.size(); ++i)
    json.field(report.info.axes[i].first, std::string_view(miss.values[i]));
  json.end_object();
  json.field(report.goal == SearchGoal::memory ? "step_time_ns" : "device_bytes", miss.need);
  json.field("is_bound", !miss.is_simulated);
  json.field("runs_out_of_memory", miss.runs_out_of_memory);
  json.end_object();
}

}  // namespace

std::string to_json(const SearchReport& report) {
  JsonWriter json;
  json.begin_object();
  json.field("schema", kSearchSchema);
  json.field("source", std::string_view(report.info.source));
  json.field("goal", name(report.goal));
  field_or_null(json, "memory_limit_bytes", report.request.memory_limit);
  field_or_null(json, "time_limit_ns", report.request.time_limit);
  json.field("points", report.info.points);
  json.field("simulated", report.simulated);
  json.field("ruled_out", report.ruled_out);
  json.field("excluded", report.excluded);
  json.field("impossible", report.impossible);
  json.field("proved", report.is_proved);
  field_or_null(json, "grid_gap", report.grid_gap);
  json.key("best");
  if (report.best)
    write_best(json, report, *report.best);
  else
    json.null();
  json.key("blocks");
  if (report.blocks)
    write_blocks(json, *report.blocks);
  else
    json.null();
  json.key("runners_up").begin_array();
  for (const run::SweepPoint& point : report.runners_up) {
    json.begin_object();
    write_fields(json, report.info, point);
    json.field("device_bytes", *device_memory(point.figures));
    json.end_object();
  }
  json.end_array();
  json.key("closest");
  if (report.closest)
    write_closest(json, report, *report.closest);
  else
    json.null();
  json.key("warnings").begin_array();
  for (const std::string& warning : report.warnings) json.value(std::string_view(warning));
  json.end_array();
  json.end_object();
  return json.text() + "\n";
}

}  // namespace foregather::tasks
