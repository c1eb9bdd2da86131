// The tables of an Nsight Systems export that become columns.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/dense_ids.h"
#include "traces/nsys.h"
#include "traces/nsys_strings.h"

namespace foregather::traces {

/// Appends to the columns of a trace. Borrows all three for its life; read() once.
class NsysEvents {
 public:
  NsysEvents(const ForeignDatabase& database, NsysStrings& strings, NsysTrace& trace)
      : database_(database), strings_(strings), trace_(trace), recording_(trace.recording) {}

  Status read();
  /// Of a table that was read, else nothing.
  std::optional<std::int64_t> rows_of(std::string_view table) const;

 private:
  struct Span {
    Ns start = 0, end = 0;
  };
  /// A table, the columns that are read of it, and what becomes of a row.
  struct TableReader {
    std::string_view table;
    std::vector<std::string_view> columns;
    bool (NsysEvents::*row)(const ForeignRows&);  // true: it was kept
  };

  Status read_table(const TableReader& reader);
  bool cuda_event(const ForeignRows& row);
  bool kernel(const ForeignRows& row);
  bool copy(const ForeignRows& row);
  bool fill(const ForeignRows& row);
  bool call(const ForeignRows& row);
  bool range(const ForeignRows& row);
  bool sync(const ForeignRows& row);

  bool activity(const ForeignRows& row, run::ActivityKind kind, StringId name, Bytes bytes);
  std::optional<Span> span(const ForeignRows& row);
  run::LaneRow device_lane(std::int64_t device, std::int64_t stream);
  run::LaneRow thread_lane(const ForeignRows& row, int column);
  run::CorrelationId correlation(const ForeignRows& row, int process, int number);
  std::uint32_t process(const ForeignRows& row, int column);
  StringId process_text(const ForeignRows& row, int column);  // absent: not recorded
  StringId text(const ForeignRows& row, int column);
  StringId stream_text(std::int64_t stream);
  bool drop(std::string_view reason);     // false
  bool leave(std::string_view category);  // false: an event of no use here

  struct RecordedEvent {
    run::CorrelationId correlation;
    StringId stream;
  };

  const ForeignDatabase& database_;
  NsysStrings& strings_;
  NsysTrace& trace_;
  run::Recording& recording_;
  std::map<std::string, std::int64_t, std::less<>> rows_;  // by table
  DenseIds device_lanes_, thread_lanes_, processes_, correlations_, event_ids_;
  std::vector<run::LaneRow> lane_of_device_, lane_of_thread_;
  std::vector<StringId> process_texts_;                     // by processes_
  std::vector<RecordedEvent> recorded_events_;              // by event_ids_
  std::map<std::array<std::int64_t, 3>, StringId> copies_;  // names of copies and fills by kinds
};

}  // namespace foregather::traces
