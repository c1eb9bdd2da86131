#include "core/base/json_writer.h"
#include "tasks/summary.h"

namespace foregather::tasks {
namespace {

constexpr int kSummarySchema = 1;

template <class T>
void optional_field(JsonWriter& json, std::string_view name, const std::optional<T>& value) {
  if (value)
    json.field(name, *value);
  else
    json.key(name).null();
}

void text_list(JsonWriter& json, std::string_view name, const std::vector<std::string>& texts) {
  json.key(name).begin_array();
  for (const std::string& text : texts) json.value(std::string_view(text));
  json.end_array();
}

std::string_view memory_model_name(MemoryModel model) {
  switch (model) {
    case MemoryModel::allocator: return "allocator";
    case MemoryModel::live: return "live";
    case MemoryModel::thunder_estimator: return "thunder-estimator";
  }
  return "";
}

void write_peaks(JsonWriter& json, const Peaks& peaks) {
  json.field("peak_requested_bytes", peaks.requested);
  json.field("peak_allocated_bytes", peaks.allocated);
  json.field("peak_active_bytes", peaks.active);
  json.field("peak_reserved_bytes", peaks.reserved);
}

void write_memory(JsonWriter& json, const StepMemory& memory) {
  write_peaks(json, memory.peaks);
  optional_field(json, "alloc_retries", memory.retries);
  optional_field(json, "peak_at", memory.peak_at);
  json.key("peak_by_cause").begin_object();
  for (std::size_t cause = 0; cause < kScheduleCauses; ++cause)
    json.field(name(static_cast<Cause>(cause)), memory.by_cause[cause]);
  json.end_object();
}

void write_collectives(JsonWriter& json, const std::optional<StepTimes>& times) {
  if (!times) {
    json.key("collectives").null();
    return;
  }
  json.key("collectives").begin_object();
  for (std::size_t kind = 0; kind < compare::kOpKinds; ++kind) {
    const compare::CollectiveUse& use = times->busy.by_kind[kind];
    if (use.count == 0) continue;
    json.key(name(static_cast<OpKind>(kind))).begin_object();
    json.field("count", use.count);
    if (times->busy.knows_bytes(static_cast<OpKind>(kind)))
      json.field("bytes", use.bytes);
    else
      json.key("bytes").null();
    json.field("busy_ns", use.busy);
    json.field("exposed_ns", use.exposed);
    json.end_object();
  }
  json.end_object();
}

// The figures that a class has and the job takes from its slowest class. A recording does not say
// what went over the wire, and one rank's does not say what it waited for others.
void write_times(JsonWriter& json, const Summary& summary, std::size_t c) {
  const std::optional<StepTimes>& times = summary.classes[c].times;
  const auto field = [&](std::string_view name, auto member) {
    if (times)
      json.field(name, member(*times));
    else
      json.key(name).null();
  };
  field("ops", [](const StepTimes& t) { return t.busy.ops; });
  field("step_time_ns", [](const StepTimes& t) { return t.step; });
  field("compute_busy_ns", [](const StepTimes& t) { return t.busy.compute; });
  field("comm_busy_ns", [](const StepTimes& t) { return t.busy.comm; });
  field("exposed_comm_ns", [](const StepTimes& t) { return t.busy.exposed; });
  if (summary.knows_waits(c))
    field("comm_wait_ns", [](const StepTimes& t) { return t.busy.wait; });
  else
    json.key("comm_wait_ns").null();
  field("host_bound_ns", [](const StepTimes& t) { return t.host_bound; });
  if (summary.recorded.empty() && (!times || times->busy.knows_bytes()))
    field("bytes_on_wire", [](const StepTimes& t) { return t.busy.wire_bytes; });
  else
    json.key("bytes_on_wire").null();
  write_collectives(json, times);
}

void write_first_step(JsonWriter& json, const std::optional<Ns>& time, const StepMemory& memory) {
  json.key("first_step").begin_object();
  optional_field(json, "step_time_ns", time);
  write_memory(json, memory);
  json.end_object();
}

void write_path(JsonWriter& json, const Summary& summary) {
  if (!summary.step_time()) {
    json.key("critical_path").null();
    return;
  }
  json.key("critical_path").begin_array();
  for (const PathFigure& figure : summary.path.ops) {
    json.begin_object();
    json.field("op", std::string_view(figure.op));
    json.field("ns", figure.time);
    json.field("gap_ns", figure.gap);
    json.field("bound_by", figure.reason);
    json.end_object();
  }
  json.end_array();
}

void write_collective_keys(JsonWriter& json, const Summary& summary) {
  if (!summary.step_time()) {
    json.key("collective_keys").null();
    return;
  }
  json.key("collective_keys").begin_array();
  for (const CollectiveFigure& figure : summary.collectives) {
    json.begin_object();
    json.field("scope", std::string_view(figure.scope));
    json.field("phase", name(figure.phase));
    json.field("kind", name(figure.kind));
    json.key("bytes");
    if (figure.bytes > 0)
      json.value(figure.bytes);
    else
      json.null();
    json.field("ranks", std::int64_t{figure.ranks});
    json.end_object();
  }
  json.end_array();
}

void write_oom(JsonWriter& json, const std::optional<OomFigures>& oom) {
  if (!oom) {
    json.key("oom").null();
    return;
  }
  json.key("oom").begin_object();
  optional_field(json, "op", oom->op);
  json.field("storage", std::string_view(oom->storage));
  json.field("requested_bytes", oom->requested);
  json.field("in_first_step", oom->in_first_step);
  json.end_object();
}

void write_range(JsonWriter& json, std::string_view key,
                 const std::optional<std::pair<std::int64_t, std::int64_t>>& range) {
  if (!range) {
    json.key(key).null();
    return;
  }
  json.key(key).begin_array();
  json.value(range->first);
  json.value(range->second);
  json.end_array();
}

void write_fits(JsonWriter& json, const Summary& summary, const Interval& interval,
                std::optional<Bytes> margin) {
  json.key("fits").begin_object();
  json.field("answer", margin && *margin >= 0 ? "yes" : "no");
  optional_field(json, "margin_bytes", margin);
  if (interval.reserved)
    json.field("close_call", interval.is_close_call);
  else
    json.key("close_call").null();
  json.end_object();
  json.field("capacity_bytes", summary.capacity);
  json.field("outside_allocator_bytes", summary.outside_allocator);
}

// Of a recording, or another schedule without memory: nothing is known of these. A recording's
// first step is any.
void write_unknown_memory(JsonWriter& json, const std::optional<Ns>& first_step) {
  constexpr std::array kOfStep{"peak_requested_bytes", "peak_allocated_bytes", "peak_active_bytes",
                               "peak_reserved_bytes",  "alloc_retries",        "peak_at",
                               "peak_by_cause"};
  for (const char* key : kOfStep) json.key(key).null();
  for (const char* key :
       {"peak_memory_bound_bytes", "oom", "fits", "capacity_bytes", "outside_allocator_bytes"})
    json.key(key).null();
  json.key("first_step");
  if (!first_step) return void(json.null());
  json.begin_object().field("step_time_ns", *first_step);
  for (const char* key : kOfStep) json.key(key).null();
  json.end_object();
}

// Of the job or of one class: times are those of `slow`, memory is that of `large`.
void write_figures(JsonWriter& json, const Summary& summary, const Figures& figures,
                   const ClassFigures& slow, const std::optional<Ns>& first_step,
                   const ClassFigures& large, std::optional<Bytes> margin) {
  write_times(json, summary, static_cast<std::size_t>(&slow - summary.classes.data()));
  optional_field(json, "step_time_bound_ns", figures.bound);
  optional_field(json, "tokens_per_s_per_gpu", figures.tokens_per_second);
  optional_field(json, "mfu", figures.mfu);
  if (summary.has_memory) {
    write_memory(json, large.memory);
    json.field("peak_memory_bound_bytes", figures.memory_bound);
    write_oom(json, figures.oom);
    write_fits(json, summary, figures.interval, margin);
    write_first_step(json, first_step, large.first_memory);
  } else {
    write_unknown_memory(json, summary.recorded.empty() ? first_step : std::nullopt);
  }
  json.key("interval").begin_object();
  write_range(json, "step_time_ns", figures.interval.step_time);
  if (summary.has_memory)
    write_range(json, "peak_reserved_bytes", figures.interval.reserved);
  else
    json.key("peak_reserved_bytes").null();
  json.end_object();
}

void write_classes(JsonWriter& json, const Summary& summary) {
  json.key("classes").begin_array();
  for (const ClassFigures& figures : summary.classes) {
    json.begin_object();
    json.field("name", std::string_view(figures.name));
    json.field("ranks", figures.ranks.size());
    json.field("first_rank", std::int64_t{figures.ranks.front()});
    write_figures(json, summary, figures, figures, figures.first_step, figures,
                  summary.margin(figures));
    json.end_object();
  }
  json.end_array();
}

void write_recorded(JsonWriter& json, const Summary& summary) {
  if (summary.recorded.empty()) return;
  const RecordedFigures& slow = summary.recorded[summary.slowest];
  const auto measured = [&](Ns time) {
    json.key("measured_step_time_ns");
    if (summary.is_measured)
      json.value(time);
    else
      json.null();
  };
  measured(summary.measured_step_time());
  json.field("unexplained_ns", slow.unexplained);
  json.field("pinned_ops", slow.pinned);
  if (const auto& before = summary.as_recorded) {
    json.key("as_recorded").begin_object();
    json.field("step_time_ns", before->step);
    json.field("exposed_comm_ns", before->exposed);
    json.end_object();
    json.field("newly_exposed_comm_ns", summary.slow().times->busy.exposed - before->exposed);
  }
  json.key("ranks").begin_array();
  for (std::size_t i = 0; i < summary.recorded.size(); ++i) {
    const RecordedFigures& rank = summary.recorded[i];
    json.begin_object();
    json.field("rank", std::int64_t{rank.rank});
    json.field("source", std::string_view(rank.source));
    measured(rank.measured);
    json.field("step_time_ns", summary.classes[i].times->step);
    json.field("unexplained_ns", rank.unexplained);
    json.field("pinned_ops", rank.pinned);
    json.field("ops", rank.ops);
    json.field("streams", rank.streams);
    json.field("recorded_waits", rank.recorded_deps);
    json.field("inferred_waits", rank.inferred_deps);
    json.field("clock_shift_ns", rank.clock_shift);
    if (rank.clock)
      json.field("clock_offset_ns", rank.clock->offset)
          .field("clock_uncertainty_ns", rank.clock->uncertainty);
    else
      json.key("clock_offset_ns").null().key("clock_uncertainty_ns").null();
    json.field("matched_collectives", rank.matched);
    json.end_object();
  }
  json.end_array();
}

void write_what_if(JsonWriter& json, const Summary& summary) {
  json.key("what_if").begin_array();
  for (const WhatIfFigure& pass : summary.what_if) {
    json.begin_object();
    json.field("pass", std::string_view(pass.pass));
    json.field("did", std::string_view(pass.did));
    json.field("changed", pass.changed);
    json.end_object();
  }
  json.end_array();
}

}  // namespace

std::string to_json(const Summary& summary) {
  JsonWriter json;
  json.begin_object();
  json.field("schema", kSummarySchema);
  json.field("source", std::string_view(summary.source));
  json.field("name", std::string_view(summary.name));
  json.field("model", std::string_view(summary.model));
  json.field("strategy", std::string_view(summary.strategy));
  json.field("hardware", std::string_view(summary.hardware));
  json.field("memory_model", memory_model_name(summary.memory_model));
  json.field("world_size", std::int64_t{summary.world_size});
  json.field("parameters", summary.parameters);
  write_figures(json, summary, summary, summary.slow(), summary.first_step(), summary.large(),
                summary.margin());
  if (summary.argument_bytes) json.field("argument_bytes", *summary.argument_bytes);
  write_recorded(json, summary);
  write_what_if(json, summary);
  text_list(json, "warnings", summary.warnings);
  write_classes(json, summary);
  write_path(json, summary);
  write_collective_keys(json, summary);
  json.field("simulated_in_ns", summary.simulated_in);
  json.end_object();
  return json.text() + "\n";
}

}  // namespace foregather::tasks
