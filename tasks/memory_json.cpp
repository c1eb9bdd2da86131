#include "tasks/memory_json.h"

#include <algorithm>
#include <span>

#include "core/base/json_writer.h"

namespace foregather::tasks {
namespace {

constexpr int kMemorySchema = 1;
constexpr std::size_t kMostHolders = 50;

template <class T>
void maybe(JsonWriter& json, std::string_view name, const std::optional<T>& value) {
  json.key(name);
  if (value)
    json.value(*value);
  else
    json.null();
}

void write_usage(JsonWriter& json, std::string_view prefix, const alloc::Usage& usage) {
  const auto field = [&](std::string_view name, Bytes bytes) {
    json.field(std::string(prefix) + std::string(name) + "_bytes", bytes);
  };
  field("requested", usage.requested);
  field("allocated", usage.allocated);
  field("active", usage.active);
  field("reserved", usage.reserved);
}

void write_divergence(JsonWriter& json, const MemoryTrace& trace) {
  json.key("first_divergence");
  if (!trace.replay.first_divergence) {
    json.null();
    return;
  }
  json.begin_object()
      .field("event", trace.replay.first_divergence->event)
      .field("action", trace.diverging_action)
      .field("reason", trace.replay.first_divergence->reason);
  json.key("stack").begin_array();
  for (const std::string& frame : trace.diverging_stack) json.value(frame);
  json.end_array().end_object();
}

void write_holders(JsonWriter& json, std::span<const Holder> holders, bool by_frame) {
  json.begin_array();
  for (const Holder& holder : holders.first(std::min(holders.size(), kMostHolders))) {
    json.begin_object();
    if (by_frame)
      json.field("frame", holder.frame);
    else
      json.field("block_bytes", holder.block_bytes);
    json.field("blocks", holder.blocks).field("bytes", holder.bytes).end_object();
  }
  json.end_array();
}

void write_peak(JsonWriter& json, const MemoryTrace& trace) {
  json.key("peak").begin_object();
  maybe(json, "event", trace.replay.peak_event);
  json.field("allocated_bytes", trace.replay.peak.allocated);
  json.key("by_frame");
  write_holders(json, trace.holders.by_frame, true);
  json.key("by_size");
  write_holders(json, trace.holders.by_size, false);
  json.end_object();
}

// Figures of one device, or of several: the largest peaks and the sums of the counts. What is
// unused is that of a device.
struct DeviceFigures {
  alloc::Usage peak;
  double fragmentation = 0;
  Bytes final_reserved = 0;
  std::int64_t segment_events = 0, retries = 0, ooms = 0, recorded_ooms = 0;

  void add(const alloc::WhatIfFigures& row) {
    for (Bytes alloc::Usage::*bytes : {&alloc::Usage::requested, &alloc::Usage::allocated,
                                       &alloc::Usage::active, &alloc::Usage::reserved})
      peak.*bytes = std::max(peak.*bytes, row.peak.*bytes);
    fragmentation = std::max(fragmentation, row.fragmentation());
    final_reserved = std::max(final_reserved, row.at_end.reserved);
    segment_events += static_cast<std::int64_t>(row.segment_events);
    retries += row.retries;
    ooms += row.ooms;
    recorded_ooms += row.recorded_ooms;
  }
};

void write_figures(JsonWriter& json, const DeviceFigures& figures) {
  write_usage(json, "peak_", figures.peak);
  json.field("final_reserved_bytes", figures.final_reserved)
      .field("fragmentation", figures.fragmentation)
      .field("segment_events", figures.segment_events)
      .field("retries", figures.retries)
      .field("ooms", figures.ooms)
      .field("recorded_ooms", figures.recorded_ooms);
}

void write_row(JsonWriter& json, const WhatIfRow& row) {
  DeviceFigures figures;
  figures.add(row.figures);
  write_figures(json, figures);
  maybe(json, "first_oom_event", row.figures.first_oom);
  maybe(json, "capacity_bytes", row.capacity);
  json.field("address_digest", row.figures.address_digest);
}

void write_trace(JsonWriter& json, const MemoryTrace& trace) {
  const alloc::Replay& replay = trace.replay;
  json.begin_object()
      .field("device", trace.device)
      .field("events", trace.events)
      .field("exact", replay.exact())
      .field("allocs", replay.allocs)
      .field("exact_addresses", replay.exact_addresses);
  write_usage(json, "peak_", replay.peak);
  json.field("peak_reserved_recorded_bytes", replay.peak_reserved_recorded)
      .field("largest_reserved_error_bytes", replay.largest_reserved_error);
  write_usage(json, "start_", replay.at_start);
  json.field("start_ambiguous_blocks", replay.start.ambiguous.size())
      .field("start_active_upper_slack", replay.start.upper_slack());
  write_usage(json, "final_", replay.at_end);
  json.field("final_blocks", replay.blocks_recorded)
      .field("final_blocks_different", replay.blocks_different)
      .field("segments_recorded", replay.segments_recorded)
      .field("segments_replayed", replay.segments_replayed)
      .field("segments_exact", replay.segments_exact)
      .field("unmatched_frees", replay.unmatched_frees)
      .field("empty_caches", replay.empty_caches.size())
      .field("retries", replay.retries)
      .field("ooms", replay.ooms);
  maybe(json, "capacity_bytes", replay.capacity);
  write_divergence(json, trace);
  json.field("digest_alloc", replay.digest_alloc).field("digest_curve", replay.digest_curve);
  write_peak(json, trace);
  json.key("what_if").begin_object();
  for (const WhatIfRow& row : trace.what_if) {
    json.key(row.name).begin_object();
    write_row(json, row);
    json.end_object();
  }
  json.end_object().end_object();
}

// Over all devices, and each device apart.
void write_what_if(JsonWriter& json, const MemoryReport& report) {
  json.key("what_if").begin_object();
  const std::size_t count = report.traces.empty() ? 0 : report.traces.front().what_if.size();
  for (std::size_t i = 0; i < count; ++i) {
    json.key(report.traces.front().what_if[i].name).begin_object();
    DeviceFigures all;
    for (const MemoryTrace& trace : report.traces) all.add(trace.what_if[i].figures);
    json.field("alloc_conf", alloc::to_string(report.traces.front().what_if[i].config));
    if (report.traces.size() == 1)
      write_row(json, report.traces.front().what_if[i]);
    else
      write_figures(json, all);
    json.key("devices").begin_array();
    for (const MemoryTrace& trace : report.traces) {
      json.begin_object().field("device", trace.device);
      write_row(json, trace.what_if[i]);
      json.end_object();
    }
    json.end_array().end_object();
  }
  json.end_object();
}

}  // namespace

std::string to_json(const MemoryReport& report) {
  JsonWriter json;
  json.begin_object()
      .field("schema", kMemorySchema)
      .field("source", report.source)
      .field("alloc_conf", alloc::to_string(report.config));
  json.field("exact", std::all_of(report.traces.begin(), report.traces.end(),
                                  [](const MemoryTrace& trace) { return trace.replay.exact(); }));
  json.key("traces").begin_array();
  for (const MemoryTrace& trace : report.traces) write_trace(json, trace);
  json.end_array();
  write_what_if(json, report);
  json.key("warnings").begin_array();
  for (const std::string& warning : report.warnings) json.value(warning);
  json.end_array().end_object();
  return json.text() + "\n";
}

}  // namespace foregather::tasks
