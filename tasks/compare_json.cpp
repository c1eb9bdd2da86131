#include <cmath>

#include "core/base/json_writer.h"
#include "tasks/compare.h"

namespace foregather::tasks {
namespace {

constexpr int kSchema = 1;
constexpr std::size_t kMostListed = 100;

double rounded(double share) { return std::round(share * 1e6) / 1e6; }

void write_side(JsonWriter& json, const ComparedSide& side) {
  json.begin_object();
  json.field("source", std::string_view(side.location));
  json.field("run", std::string_view(side.run));
  json.field("kind", side.is_measured ? "measured" : "predicted");
  json.field("rank", std::int64_t{side.rank});
  json.field("step", std::int64_t{side.step});
  json.field("step_time_ns", side.step_time);
  json.field("ops", side.busy.ops);
  json.field("compute_busy_ns", side.busy.compute);
  json.field("comm_busy_ns", side.busy.comm);
  json.field("exposed_comm_ns", side.busy.exposed);
  json.field("hidden_comm_ns", side.busy.comm - side.busy.exposed);
  json.field("comm_wait_ns", side.busy.wait);
  json.field("peak_allocated_bytes", side.peak_allocated);
  json.field("peak_reserved_bytes", side.peak_reserved);
  json.key("critical_path").begin_object();
  json.field("compute_ns", side.path.compute);
  json.field("comm_ns", side.path.comm);
  json.field("host_ns", side.path.host);
  json.field("other_ns", side.path.other);
  json.end_object().end_object();
}

void write_groups(JsonWriter& json, std::string_view key,
                  const std::vector<compare::MatchedGroup>& groups) {
  json.key(key).begin_array();
  for (std::size_t i = 0; i < std::min(kMostListed, groups.size()); ++i) {
    const compare::MatchedGroup& group = groups[i];
    json.begin_object();
    json.field("key", std::string_view(group.key));
    json.field("ops", group.first_ops + group.second_ops);
    json.field("ns", group.first_time + group.second_time);
    json.end_object();
  }
  json.end_array();
}

std::int64_t ops_of(const std::vector<compare::MatchedGroup>& groups) {
  std::int64_t ops = 0;
  for (const compare::MatchedGroup& group : groups) ops += group.first_ops + group.second_ops;
  return ops;
}

}  // namespace

std::string to_json(const Comparison& comparison) {
  const compare::Matching& matching = comparison.matching;
  JsonWriter json;
  json.begin_object().field("schema", kSchema);
  json.key("first");
  write_side(json, comparison.first);
  json.key("second");
  write_side(json, comparison.second);
  json.field("step_time_error", rounded(comparison.step_time_error()));
  json.key("peak_memory_error");
  if (const auto error = comparison.peak_memory_error())
    json.value(rounded(*error));
  else
    json.null();
  json.field("matched", matching.groups.size());
  json.key("matched_at").begin_object();
  for (std::size_t level = 0; level < compare::kMatchLevels; ++level)
    json.field(name(static_cast<compare::MatchLevel>(level)),
               matching.second_time == 0
                   ? 0.0
                   : rounded(static_cast<double>(matching.second_matched[level]) /
                             static_cast<double>(matching.second_time)));
  json.end_object();
  json.field("unmatched_predicted", ops_of(matching.only_first));
  json.field("unmatched_measured", ops_of(matching.only_second));
  json.key("by_kind").begin_object();
  for (const auto& [kind, residual] : comparison.by_kind) {
    json.key(kind).begin_object();
    json.field("n", residual.n);
    json.field("mape", rounded(residual.mape));
    json.field("bias", rounded(residual.bias));
    json.field("first_ns", residual.first);
    json.field("second_ns", residual.second);
    json.end_object();
  }
  json.end_object();
  json.key("exposed_comm").begin_object();
  json.field("predicted_ns", comparison.first.busy.exposed);
  json.field("measured_ns", comparison.second.busy.exposed);
  json.end_object();
  json.key("changed").begin_array();
  for (const compare::MatchedGroup* group : most_changed(comparison, kMostListed)) {
    json.begin_object();
    json.field("key", std::string_view(group->key));
    json.field("level", name(group->level));
    json.field("first_ops", group->first_ops);
    json.field("second_ops", group->second_ops);
    json.field("first_ns", group->first_time);
    json.field("second_ns", group->second_time);
    json.field("difference_ns", group->first_time - group->second_time);
    json.end_object();
  }
  json.end_array();
  json.key("kernels").begin_array();
  for (std::size_t i = 0; i < std::min(kMostListed, comparison.kernels.size()); ++i) {
    const compare::KernelChange& kernel = comparison.kernels[i];
    json.begin_object();
    json.field("name", std::string_view(kernel.name));
    json.field("first_ops", kernel.first_ops);
    json.field("second_ops", kernel.second_ops);
    json.field("first_ns", kernel.first_time);
    json.field("second_ns", kernel.second_time);
    json.field("difference_ns", kernel.first_time - kernel.second_time);
    json.end_object();
  }
  json.end_array();
  write_groups(json, "only_first", matching.only_first);
  write_groups(json, "only_second", matching.only_second);
  json.key("warnings").begin_array();
  for (const std::string& warning : comparison.warnings) json.value(std::string_view(warning));
  json.end_array().end_object();
  return json.text() + "\n";
}

}  // namespace foregather::tasks
