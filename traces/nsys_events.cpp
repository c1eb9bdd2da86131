#include "traces/nsys_events.h"

#include <algorithm>

#include "traces/decimal_time.h"
#include "traces/nsys_names.h"

namespace foregather::traces {
namespace {

constexpr std::int64_t kNoStream = 0xffffffff;  // CUPTI_SYNCHRONIZATION_INVALID_VALUE
constexpr std::int64_t kMostDevices = std::int64_t{1} << 32;

// The columns that all device work begins with.
enum DeviceColumn : int { start, end, device, stream, correlation_id, global_pid, first_own };
std::vector<std::string_view> with_device(std::initializer_list<std::string_view> own) {
  std::vector<std::string_view> columns{"start",    "end",           "deviceId",
                                        "streamId", "correlationId", "globalPid"};
  columns.insert(columns.end(), own);
  return columns;
}

std::string_view as_it_is(std::string_view text) { return text; }

bool is_id(const ForeignRows& row, int column) {
  return row.is_integer(column) && row.integer(column) >= 0 && row.integer(column) < kMostDevices;
}

// Columns that an export lacks are null.
std::int64_t threads_of(const ForeignRows& row) {
  constexpr int kExtents = 6;
  constexpr std::int64_t kMost = std::int64_t{1} << 31, kMostThreads = std::int64_t{1} << 60;
  std::int64_t all = 1;
  for (int column = first_own + 2; column < first_own + 2 + kExtents; ++column) {
    const std::int64_t extent = row.is_integer(column) ? row.integer(column) : 0;
    if (extent <= 0 || extent > kMost || all > kMostThreads / extent) return 0;
    all *= extent;
  }
  return all;
}

// globalTid: 24 bits of thread, 24 of process, above them the machine. Of a globalPid, the same
// without a thread.
constexpr std::uint64_t kIdMask = 0xffffff;
std::uint64_t process_of(std::uint64_t global) { return global >> 24U & kIdMask; }

std::uint64_t pair_of(std::uint64_t high, std::uint64_t low) { return high << 32U | low; }

}  // namespace

Status NsysEvents::read() {
  const TableReader kReaders[] = {
      {"CUPTI_ACTIVITY_KIND_CUDA_EVENT",
       {"eventSyncId", "correlationId", "globalPid", "streamId"},
       &NsysEvents::cuda_event},
      {"CUPTI_ACTIVITY_KIND_KERNEL",
       with_device(
           {"demangledName", "shortName", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"}),
       &NsysEvents::kernel},
      {"CUPTI_ACTIVITY_KIND_MEMCPY", with_device({"bytes", "copyKind", "srcKind", "dstKind"}),
       &NsysEvents::copy},
      {"CUPTI_ACTIVITY_KIND_MEMSET", with_device({"bytes", "memKind"}), &NsysEvents::fill},
      {"CUPTI_ACTIVITY_KIND_RUNTIME",
       {"start", "end", "globalTid", "correlationId", "nameId"},
       &NsysEvents::call},
      {"CUPTI_ACTIVITY_KIND_DRIVER",
       {"start", "end", "globalTid", "correlationId", "nameId"},
       &NsysEvents::call},
      {"CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", with_device({"syncType", "eventSyncId"}),
       &NsysEvents::sync},
      {"NVTX_EVENTS", {"start", "end", "globalTid", "text", "textId"}, &NsysEvents::range}};
  for (const TableReader& reader : kReaders)
    if (const Status status = read_table(reader); !status) return status;
  recording_.correlations = correlations_.size();
  return {};
}

std::optional<std::int64_t> NsysEvents::rows_of(std::string_view table) const {
  const auto found = rows_.find(table);
  if (found == rows_.end()) return std::nullopt;
  return found->second;
}

Status NsysEvents::read_table(const TableReader& reader) {
  const ForeignTable* const table = database_.table(reader.table);
  if (table == nullptr) return {};
  auto rows = database_.rows(*table, reader.columns);
  if (!rows) return tl::unexpected(rows.error());
  std::int64_t& count = rows_[table->name];
  for (;;) {
    const auto row = rows->next();
    if (!row) return tl::unexpected(row.error());
    if (!*row) return {};
    ++count;
    if ((this->*reader.row)(*rows)) ++recording_.rows.kept;
  }
}

// Kept in what waits for it: SyncColumns::recorded.
bool NsysEvents::cuda_event(const ForeignRows& row) {
  if (!row.is_integer(0) || !is_id(row, 3)) return leave("CUPTI_ACTIVITY_KIND_CUDA_EVENT");
  const std::uint64_t key = pair_of(process(row, 2), static_cast<std::uint32_t>(row.integer(0)));
  const std::uint32_t event = event_ids_.row(key);
  if (event == recorded_events_.size()) recorded_events_.emplace_back();
  recorded_events_[event] = {correlation(row, 2, 1), stream_text(row.integer(3))};
  return true;
}

bool NsysEvents::kernel(const ForeignRows& row) {
  const StringId name = text(row, first_own);
  return activity(row, run::ActivityKind::kernel, name ? name : text(row, first_own + 1), 0);
}

bool NsysEvents::copy(const ForeignRows& row) {
  const std::array kinds{row.integer(first_own + 1), row.integer(first_own + 2),
                         row.integer(first_own + 3)};
  StringId& name = copies_[kinds];
  if (!name) name = recording_.strings.intern(nsys_copy_name(kinds[0], kinds[1], kinds[2]));
  return activity(row, run::ActivityKind::memcpy, name, row.integer(first_own));
}

bool NsysEvents::fill(const ForeignRows& row) {
  const std::int64_t kind = row.integer(first_own + 1);
  StringId& name = copies_[{-1, kind, 0}];
  if (!name) name = recording_.strings.intern(nsys_fill_name(kind));
  return activity(row, run::ActivityKind::memset, name, row.integer(first_own));
}

bool NsysEvents::activity(const ForeignRows& row, run::ActivityKind kind, StringId name,
                          Bytes bytes) {
  const auto time = span(row);
  if (!time) return false;
  if (!is_id(row, device) || !is_id(row, stream)) return drop("no_stream");
  run::ActivityColumns& rows = recording_.activities;
  rows.lane.push_back(device_lane(row.integer(device), row.integer(stream)));
  rows.kind.push_back(kind);
  rows.name.push_back(name ? name : recording_.strings.intern(""));
  rows.start.push_back(time->start);
  rows.end.push_back(time->end);
  rows.correlation.push_back(correlation(row, global_pid, correlation_id));
  rows.external.emplace_back();
  rows.bytes.push_back(std::max<Bytes>(bytes, 0));
  rows.threads.push_back(kind == run::ActivityKind::kernel ? threads_of(row) : 0);
  rows.collective.emplace_back();
  rows.process.push_back(process_text(row, global_pid));
  return true;
}

bool NsysEvents::call(const ForeignRows& row) {
  const auto time = span(row);
  if (!time) return false;
  run::CallColumns& rows = recording_.calls;
  const StringId name = row.is_integer(4)
                            ? strings_.intern(row.integer(4), recording_.strings, nsys_call_name)
                            : StringId();
  rows.lane.push_back(thread_lane(row, 2));
  rows.name.push_back(name ? name : recording_.strings.intern(""));
  rows.start.push_back(time->start);
  rows.end.push_back(time->end);
  rows.correlation.push_back(correlation(row, 2, 3));
  rows.external.emplace_back();
  return true;
}

bool NsysEvents::range(const ForeignRows& row) {
  if (row.is_null(1)) return leave("NVTX_EVENTS without an end");
  ++trace_.facts.nvtx_ranges;
  const auto time = span(row);
  if (!time) return false;
  run::RangeColumns& rows = recording_.ranges;
  const StringId name = row.is_null(3) ? text(row, 4) : recording_.strings.intern(row.text(3));
  rows.lane.push_back(thread_lane(row, 2));
  rows.kind.push_back(run::RangeKind::annotation);
  rows.name.push_back(name ? name : recording_.strings.intern(""));
  rows.start.push_back(time->start);
  rows.end.push_back(time->end);
  rows.external.emplace_back();
  rows.sequence.push_back(-1);
  rows.is_backward.push_back(0);
  rows.collective.emplace_back();
  rows.shapes.emplace_back();
  rows.types.emplace_back();
  rows.values.emplace_back();
  return true;
}

bool NsysEvents::sync(const ForeignRows& row) {
  const auto time = span(row);
  if (!time) return false;
  if (!is_id(row, device) || !is_id(row, stream)) return drop("no_stream");
  RecordedEvent awaited;
  if (row.is_integer(first_own + 1)) {
    const std::uint32_t event = event_ids_.row(
        pair_of(process(row, global_pid), static_cast<std::uint32_t>(row.integer(first_own + 1))));
    if (event == recorded_events_.size()) recorded_events_.emplace_back();
    awaited = recorded_events_[event];
  }
  run::SyncColumns& rows = recording_.syncs;
  rows.lane.push_back(device_lane(row.integer(device), row.integer(stream)));
  rows.name.push_back(recording_.strings.intern(nsys_sync_name(row.integer(first_own))));
  rows.start.push_back(time->start);
  rows.end.push_back(time->end);
  rows.correlation.push_back(correlation(row, global_pid, correlation_id));
  rows.recorded.push_back(awaited.correlation);
  rows.awaited_stream.push_back(awaited.stream);
  rows.process.push_back(process_text(row, global_pid));
  return true;
}

std::optional<NsysEvents::Span> NsysEvents::span(const ForeignRows& row) {
  const auto refuse = [this](std::string_view reason) {
    drop(reason);
    return std::nullopt;
  };
  if (!row.is_integer(start) || !row.is_integer(end)) return refuse("nonnumeric_ts");
  const Span span{row.integer(start), row.integer(end)};
  if (std::min(span.start, span.end) < -kLatestTime || std::max(span.start, span.end) > kLatestTime)
    return refuse("time_out_of_range");
  if (span.end < span.start) return refuse("neg_dur");
  return span;
}

run::LaneRow NsysEvents::device_lane(std::int64_t device, std::int64_t stream) {
  const std::uint32_t row = device_lanes_.row(
      pair_of(static_cast<std::uint64_t>(device), static_cast<std::uint64_t>(stream)));
  if (row == lane_of_device_.size()) {
    lane_of_device_.emplace_back(recording_.lanes.size());
    recording_.lanes.push_back(
        {recording_.strings.intern(fmt::to_string(device)), stream_text(stream)});
  }
  return lane_of_device_[row];
}

// Of no stream in particular: "-1", as torch.profiler prints it.
StringId NsysEvents::stream_text(std::int64_t stream) {
  return recording_.strings.intern(stream == kNoStream ? "-1" : fmt::to_string(stream));
}

run::LaneRow NsysEvents::thread_lane(const ForeignRows& row, int column) {
  const auto id = static_cast<std::uint64_t>(row.integer(column));
  const std::uint32_t lane = thread_lanes_.row(id);
  if (lane == lane_of_thread_.size()) {
    lane_of_thread_.emplace_back(recording_.lanes.size());
    recording_.lanes.push_back({recording_.strings.intern(fmt::to_string(process_of(id))),
                                recording_.strings.intern(fmt::to_string(id & kIdMask))});
  }
  return lane_of_thread_[lane];
}

// The same for a globalPid and for the globalTid of its threads.
std::uint32_t NsysEvents::process(const ForeignRows& row, int column) {
  return processes_.row(static_cast<std::uint64_t>(row.integer(column)) >> 24U);
}

StringId NsysEvents::process_text(const ForeignRows& row, int column) {
  if (!row.is_integer(column)) return {};
  const std::uint32_t known = process(row, column);
  if (known >= process_texts_.size()) process_texts_.resize(known + 1);
  StringId& text = process_texts_[known];
  if (!text)
    text = recording_.strings.intern(
        fmt::to_string(process_of(static_cast<std::uint64_t>(row.integer(column)))));
  return text;
}

run::CorrelationId NsysEvents::correlation(const ForeignRows& row, int process_column, int number) {
  if (!is_id(row, number) || row.integer(number) == 0) return {};
  return run::CorrelationId(correlations_.row(
      pair_of(process(row, process_column), static_cast<std::uint64_t>(row.integer(number)))));
}

StringId NsysEvents::text(const ForeignRows& row, int column) {
  return row.is_integer(column) ? strings_.intern(row.integer(column), recording_.strings, as_it_is)
                                : StringId();
}

bool NsysEvents::drop(std::string_view reason) {
  run::count(recording_.dropped, reason);
  return false;
}

bool NsysEvents::leave(std::string_view category) {
  run::count(recording_.rows.unused, category);
  return false;
}

}  // namespace foregather::traces
