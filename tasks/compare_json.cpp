#include <cmath>

#include "core/base/json_writer.h"
#include "tasks/compare.h"

namespace foregather::tasks {
namespace {

constexpr int kCompareSchema = 1;

double rounded(double share) { return std::round(share * 1e6) / 1e6; }

void write_error(JsonWriter& json, std::string_view key, std::optional<double> error) {
  json.key(key);
  if (error)
    json.value(rounded(*error));
  else
    json.null();
}

void write_path(JsonWriter& json, const ComparedSide& side) {
  json.key("critical_path");
  if (side.is_cut) {
    json.null();
    return;
  }
  json.begin_object();
  json.field("compute_ns", side.path.compute);
  json.field("comm_ns", side.path.comm);
  json.field("host_ns", side.path.host);
  json.field("other_ns", side.path.other);
  json.field("ops", side.path.steps.size());
  for (const auto& [key, times] :
       {std::pair("by_kind", &side.path_kinds), std::pair("gaps_by_reason", &side.path_reasons)}) {
    json.key(key).begin_object();
    for (const auto& [word, time] : *times) json.field(word, time);
    json.end_object();
  }
  json.key("longest").begin_array();
  for (const PathEntry& entry : side.path_longest) {
    json.begin_object();
    json.field("op", std::string_view(entry.op));
    json.field("ns", entry.time);
    json.field("gap_ns", entry.gap);
    json.field("reason", name(entry.reason));
    json.end_object();
  }
  json.end_array().end_object();
}

void write_time(JsonWriter& json, const ComparedSide& side, std::string_view name, Ns value) {
  side.is_cut ? json.key(name).null() : json.field(name, value);
}

void write_side(JsonWriter& json, std::string_view key, const ComparedSide& side) {
  json.key(key).begin_object();
  json.field("source", std::string_view(side.location));
  json.field("run", std::string_view(side.run));
  json.field("kind", side.is_measured ? "measured" : "predicted");
  json.field("rank", std::int64_t{side.rank});
  json.field("step", std::int64_t{side.step});
  const auto time = [&](std::string_view name, Ns value) { write_time(json, side, name, value); };
  time("step_time_ns", side.step_time);
  json.field("ops", side.busy.ops);
  time("compute_busy_ns", side.busy.compute);
  time("comm_busy_ns", side.busy.comm);
  time("exposed_comm_ns", side.busy.exposed);
  time("hidden_comm_ns", side.busy.comm - side.busy.exposed);
  if (side.knows_waits)
    time("comm_wait_ns", side.busy.wait);
  else
    json.key("comm_wait_ns").null();
  time("comm_transfer_ns", side.busy.transfer);
  json.field("peak_allocated_bytes", side.peak_allocated);
  json.field("peak_reserved_bytes", side.peak_reserved);
  json.field("causes_inferred", side.memory.is_inferred);
  write_path(json, side);
  json.end_object();
}

void write_unmatched(JsonWriter& json, std::string_view key, const compare::Matching& matching,
                     std::span<const compare::MatchedGroup> groups) {
  json.key(key).begin_array();
  for (const compare::MatchedGroup& group : groups) {
    json.begin_object();
    json.field("key", matching.key(group));
    json.field("ops", group.first_ops + group.second_ops);
    json.field("ns", group.first_time + group.second_time);
    json.end_object();
  }
  json.end_array();
}

std::int64_t ops_of(std::span<const compare::MatchedGroup> groups) {
  std::int64_t ops = 0;
  for (const compare::MatchedGroup& group : groups) ops += group.first_ops + group.second_ops;
  return ops;
}

void write_residuals(JsonWriter& json, std::string_view key,
                     const std::map<std::string, Residual>& residuals) {
  json.key(key).begin_object();
  for (const auto& [word, residual] : residuals) {
    json.key(word).begin_object();
    json.field("n", residual.n);
    json.field("mape", rounded(residual.mape));
    json.field("bias", rounded(residual.bias));
    json.field("first_ns", residual.first);
    json.field("second_ns", residual.second);
    json.end_object();
  }
  json.end_object();
}

void write_matched_at(JsonWriter& json, const compare::Matching& matching) {
  json.key("matched_at").begin_object();
  for (std::size_t level = 0; level < compare::kMatchLevels; ++level)
    json.field(name(static_cast<compare::MatchLevel>(level)),
               matching.second_time == 0
                   ? 0.0
                   : rounded(static_cast<double>(matching.second_matched[level]) /
                             static_cast<double>(matching.second_time)));
  json.end_object();
}

void write_memory(JsonWriter& json, const Comparison& comparison) {
  const auto& first = comparison.first.memory.by_cause;
  const auto& second = comparison.second.memory.by_cause;
  json.key("memory_by_cause").begin_object();
  for (std::size_t cause = 0; cause < first.size(); ++cause) {
    if (first[cause] == 0 && second[cause] == 0) continue;
    const bool knows_first = comparison.first.memory.knows(static_cast<Cause>(cause));
    const bool knows_second = comparison.second.memory.knows(static_cast<Cause>(cause));
    const auto bytes = [&](const char* field, bool is_known, Bytes value) {
      json.key(field);
      if (is_known)
        json.value(value);
      else
        json.null();
    };
    json.key(name(static_cast<Cause>(cause))).begin_object();
    bytes("first_bytes", knows_first, first[cause]);
    bytes("second_bytes", knows_second, second[cause]);
    bytes("difference_bytes", knows_first && knows_second, first[cause] - second[cause]);
    json.end_object();
  }
  json.end_object();
}

void write_times(JsonWriter& json, std::int64_t first_ops, std::int64_t second_ops, Ns first,
                 Ns second) {
  json.field("first_ops", first_ops);
  json.field("second_ops", second_ops);
  json.field("first_ns", first);
  json.field("second_ns", second);
  json.field("difference_ns", first - second);
}

void write_changed(JsonWriter& json, const Comparison& comparison) {
  json.key("changed").begin_array();
  for (const compare::MatchedGroup* group : most_changed(comparison)) {
    json.begin_object();
    json.field("key", comparison.matching.key(*group));
    json.field("level", name(*group->level));
    write_times(json, group->first_ops, group->second_ops, group->first_time, group->second_time);
    json.end_object();
  }
  json.end_array();
  json.key("kernels").begin_array();
  for (const compare::KernelChange& kernel : comparison.kernels) {
    json.begin_object();
    json.field("name", std::string_view(kernel.name));
    write_times(json, kernel.first_ops, kernel.second_ops, kernel.first_time, kernel.second_time);
    json.end_object();
  }
  json.end_array();
}

}  // namespace

std::string to_json(const Comparison& comparison) {
  const compare::Matching& matching = comparison.matching;
  JsonWriter json;
  json.begin_object().field("schema", kCompareSchema);
  write_side(json, "first", comparison.first);
  write_side(json, "second", comparison.second);
  write_error(json, "step_time_error", comparison.step_time_error());
  write_error(json, "peak_memory_error", comparison.peak_memory_error());
  write_memory(json, comparison);
  json.field("matched", matching.matched);
  write_matched_at(json, matching);
  json.field("unmatched_predicted", ops_of(matching.of_first_alone()));
  json.field("unmatched_measured", ops_of(matching.of_second_alone()));
  write_residuals(json, "by_kind", comparison.by_kind);
  write_residuals(json, "by_scope", comparison.by_scope);
  json.key("exposed_comm").begin_object();
  write_time(json, comparison.first, "predicted_ns", comparison.first.busy.exposed);
  write_time(json, comparison.second, "measured_ns", comparison.second.busy.exposed);
  json.end_object();
  write_changed(json, comparison);
  write_unmatched(json, "only_first", matching, matching.of_first_alone());
  write_unmatched(json, "only_second", matching, matching.of_second_alone());
  json.key("warnings").begin_array();
  for (const std::string& warning : comparison.warnings) json.value(std::string_view(warning));
  json.end_array().end_object();
  return json.text() + "\n";
}

}  // namespace foregather::tasks
