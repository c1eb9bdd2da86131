#include "core/base/json_writer.h"
#include "tasks/execute.h"

namespace foregather::tasks {
namespace {

constexpr int kRunSchema = 1;

void write_step(JsonWriter& json, const run::StepInfo& step, bool has_memory) {
  json.begin_object();
  json.field("step_time_ns", step.end - step.begin);
  const auto peak = [&](const char* name, Bytes bytes) {
    json.key(name);
    if (has_memory)
      json.value(bytes);
    else
      json.null();
  };
  peak("peak_requested_bytes", step.peak_requested);
  peak("peak_allocated_bytes", step.peak_allocated);
  peak("peak_active_bytes", step.peak_active);
  peak("peak_reserved_bytes", step.peak_reserved);
  json.end_object();
}

}  // namespace

std::string to_json(const ExecuteReport& report) {
  JsonWriter json;
  json.begin_object();
  json.field("schema", kRunSchema);
  json.field("source", std::string_view(report.source));
  json.field("backend", std::string_view(report.backend));
  json.field("backend_description", std::string_view(report.description));
  json.field("hardware", std::string_view(report.hardware));
  json.field("output", std::string_view(report.output));
  json.field("world_size", std::int64_t{report.world_size});
  json.field("steps", std::int64_t{report.run.steps});
  json.field("ops", report.run.ops);
  json.key("step_time_ns");
  if (report.run.step_time)
    json.value(*report.run.step_time);
  else
    json.null();
  json.key("ranks").begin_array();
  for (const runtime::RankFigures& rank : report.run.ranks) {
    json.begin_object().field("rank", std::int64_t{rank.rank});
    json.key("first_step");
    write_step(json, rank.first, report.has_memory);
    json.key("steady_step");
    write_step(json, rank.steady, report.has_memory);
    json.end_object();
  }
  json.end_array();
  json.key("oom");
  if (report.run.oom) {
    json.begin_object().field("storage", std::string_view(report.oom_storage));
    json.field("requested_bytes", report.run.oom->bytes);
    json.key("op");
    if (report.oom_op)
      json.value(std::string_view(*report.oom_op));
    else
      json.null();
    json.end_object();
  } else {
    json.null();
  }
  const runtime::BackendReport& backend = report.run.backend;
  json.key("checked").begin_object();
  json.field("collectives", backend.checked_collectives);
  json.field("casts", backend.checked_casts);
  json.field("bytes", backend.checked_bytes);
  json.field("collectives_without_buffers", backend.unchecked_collectives);
  json.end_object();
  json.field("overruns", backend.overruns);
  json.field("longest_overrun_ns", backend.longest_overrun);
  json.key("warnings").begin_array();
  for (const std::string& warning : report.warnings) json.value(std::string_view(warning));
  json.end_array();
  json.end_object();
  return json.text() + "\n";
}

}  // namespace foregather::tasks
