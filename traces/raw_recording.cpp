#include "traces/raw_recording.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>

#include "core/base/text.h"

namespace foregather::traces {
namespace {

constexpr std::string_view kProcess = "FOREGATHER_PROCESS";
constexpr std::int64_t kMostRecords = std::int64_t{1} << 40;  // of all reasons: they are added up

class Reading {
 public:
  Reading(const ForeignDatabase& database, NsysTrace& trace)
      : database_(database), recording_(trace.recording) {}

  Status read() {
    for (const Status& status : {read_process(), read_counts(), read_diagnostics(), read_clocks(),
                                 read_texts(), read_nccl()})
      if (!status) return status;
    if (!collectives_.empty()) describe_kernels();
    for (const std::string_view table : {"FOREGATHER_NCCL_CALL", "FOREGATHER_NCCL_COLLECTIVE"})
      keep(table);
    return {};
  }

 private:
  template <std::size_t N, class Visit>
  Status each(std::string_view name, const std::array<std::string_view, N>& columns,
              const Visit& visit) {
    const ForeignTable* const table = database_.table(name);
    if (table == nullptr) return {};
    auto rows = database_.rows(*table, columns);
    if (!rows) return tl::unexpected(rows.error());
    for (;;) {
      const auto row = rows->next();
      if (!row) return tl::unexpected(row.error());
      if (!*row) return {};
      visit(*rows);
    }
  }

  void warn(std::string text) {
    recording_.warnings.push_back(fmt::format("{}: {}", recording_.source, text));
  }

  Status read_process() {
    constexpr std::array<std::string_view, 8> kColumns{"pid",     "rank",  "worldSize", "host",
                                                       "command", "began", "ended",     "finished"};
    return each(kProcess, kColumns, [&](const ForeignRows& row) {
      constexpr std::int64_t kMost = 1 << 24;
      const auto number = [&](int column) -> std::optional<std::uint32_t> {
        if (!row.is_integer(column) || row.integer(column) < 0 || row.integer(column) > kMost)
          return std::nullopt;
        return static_cast<std::uint32_t>(row.integer(column));
      };
      recording_.rank = number(1);
      recording_.world_size = number(2);
      recording_.host = row.text(3);
      recording_.process = row.integer(0);
      if (row.integer(7) == 0)
        warn(
            "it was cut off: its process was killed, or closed the recording's files; what came "
            "last is missing");
      if (!row.is_integer(5) || !row.is_integer(6) || row.integer(6) < row.integer(5)) return;
      const StringId pid = recording_.strings.intern(fmt::to_string(row.integer(0)));
      const run::LaneRow lane(recording_.lanes.size());
      recording_.lanes.push_back({pid, recording_.strings.intern("process")});
      add_range(lane, recording_.strings.intern(fmt::format("process {}", row.text(4))),
                row.integer(5), row.integer(6));
    });
  }

  /// Rows of that table are part of others.
  void keep(std::string_view table) {
    run::EventCounts& unused = recording_.rows.unused;
    const auto found = std::find_if(unused.begin(), unused.end(),
                                    [&](const auto& count) { return count.first == table; });
    if (found == unused.end()) return;
    recording_.rows.kept += found->second;
    unused.erase(found);
  }

  void add_range(run::LaneRow lane, StringId name, Ns start, Ns end) {
    run::RangeColumns& rows = recording_.ranges;
    rows.lane.push_back(lane);
    rows.kind.push_back(run::RangeKind::annotation);
    rows.name.push_back(name);
    rows.start.push_back(start);
    rows.end.push_back(end);
    rows.external.emplace_back();
    rows.sequence.push_back(-1);
    rows.is_backward.push_back(0);
    rows.collective.emplace_back();
    rows.shapes.emplace_back();
    rows.types.emplace_back();
    rows.values.emplace_back();
  }

  Status read_counts() {
    constexpr std::array<std::string_view, 2> kColumns{"reason", "records"};
    std::int64_t room = kMostRecords;
    return each("FOREGATHER_COUNT", kColumns, [&](const ForeignRows& row) {
      const auto records = std::clamp<std::int64_t>(row.integer(1), 0, room);
      room -= records;
      const bool is_left_out = row.text(0) == "outside_window";
      run::count(is_left_out ? recording_.rows.unused : recording_.dropped, row.text(0), records);
      recording_.rows.read += records;
    });
  }

  Status read_diagnostics() {
    constexpr std::array<std::string_view, 1> kText{"text"};
    return each("DIAGNOSTIC_EVENT", kText,
                [&](const ForeignRows& row) { warn(std::string(row.text(0))); });
  }

  // Between two rows both clocks pass the same time, unless somebody set one.
  Status read_clocks() {
    constexpr std::array<std::string_view, 2> kColumns{"realtime", "monotonic"};
    constexpr Ns kStep = 1'000'000;
    std::optional<Ns> before;
    return each("FOREGATHER_CLOCK", kColumns, [&](const ForeignRows& row) {
      const Ns ahead = static_cast<Ns>(static_cast<std::uint64_t>(row.integer(0)) -
                                       static_cast<std::uint64_t>(row.integer(1)));
      if (before && (ahead - *before > kStep || *before - ahead > kStep))
        warn(
            fmt::format("the machine's clock was set by {} while it was recorded: times before "
                        "and after do not fit together",
                        format_time(ahead - *before)));
      before = ahead;
    });
  }

  Status read_texts() {
    constexpr std::array<std::string_view, 2> kColumns{"id", "value"};
    if (database_.table("FOREGATHER_NCCL_COLLECTIVE") == nullptr) return {};
    return each("StringIds", kColumns, [&](const ForeignRows& row) {
      if (row.integer(0) < 0) texts_.emplace(row.integer(0), row.text(1));
    });
  }

  std::string_view text(const ForeignRows& row, int column) const {
    const auto found = texts_.find(row.integer(column));
    return found == texts_.end() ? "" : std::string_view(found->second);
  }

  struct Launch {
    Ns start = 0, end = 0;
    std::int64_t group = 0;
  };

  Status read_nccl() {
    constexpr std::int64_t kLaunch = 2048;
    constexpr std::array<std::string_view, 6> kCalls{"id",    "parent", "type",
                                                     "start", "end",    "globalTid"};
    constexpr std::array<std::string_view, 7> kCollectives{
        "parent", "communicator", "sequence", "nameId", "count", "datatypeId", "id"};
    constexpr std::array<std::string_view, 2> kCommunicators{"communicator", "ranks"};
    const Status communicators =
        each("FOREGATHER_NCCL_COMMUNICATOR", kCommunicators,
             [&](const ForeignRows& row) { ranks_[row.integer(0)] = row.integer(1); });
    if (!communicators) return communicators;
    const Status calls = each("FOREGATHER_NCCL_CALL", kCalls, [&](const ForeignRows& row) {
      if (!row.is_integer(1)) return;
      parents_[row.integer(0)] = row.integer(1);
      if (row.integer(2) == kLaunch)
        launches_[row.integer(5)].push_back({row.integer(3), row.integer(4), row.integer(1)});
    });
    if (!calls) return calls;
    return each("FOREGATHER_NCCL_COLLECTIVE", kCollectives, [&](const ForeignRows& row) {
      const auto call = parents_.find(row.integer(0));
      const std::int64_t group = call == parents_.end() ? row.integer(0) : call->second;
      collectives_[group].push_back(described(row));
    });
  }

  /// NCCL's count is of one rank: sent of an all-gather, received of a reduce-scatter.
  run::RecordedCollective described(const ForeignRows& row) {
    constexpr std::string_view kPrefix = "nccl";
    run::RecordedCollective of;
    const std::string_view name = text(row, 3);
    std::string_view dtype = text(row, 5);
    if (dtype.starts_with(kPrefix)) dtype.remove_prefix(kPrefix.size());
    const auto ranks = ranks_.find(row.integer(1));
    const std::int64_t size = ranks == ranks_.end() ? 0 : ranks->second;
    of.name = recording_.strings.intern(lowered(name));
    of.dtype = recording_.strings.intern(torch_name(dtype));
    of.group = recording_.strings.intern(fmt::format("{:x}", row.integer(1)));
    of.group_size = static_cast<std::uint32_t>(std::clamp<std::int64_t>(size, 0, 1 << 24));
    of.sequence = row.integer(2);
    const std::int64_t count = std::clamp<std::int64_t>(row.integer(4), 0, std::int64_t{1} << 38);
    of.in_elements = name == "ReduceScatter" ? count * size : count;
    of.out_elements = name == "AllGather" ? count * size : count;
    return of;
  }

  static std::string lowered(std::string_view name) {
    if (name == "AllGather") return "_allgather_base";
    if (name == "ReduceScatter") return "_reduce_scatter_base";
    std::string out(name);
    std::transform(out.begin(), out.end(), out.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    return out;
  }

  static std::string_view torch_name(std::string_view dtype) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kNames{
        {{"Bfloat16", "BFloat16"},
         {"Float16", "Half"},
         {"Half", "Half"},
         {"Float32", "Float"},
         {"Float", "Float"},
         {"Float64", "Double"},
         {"Int64", "Long"},
         {"Int32", "Int"}}};
    for (const auto& [nccl, torch] : kNames)
      if (nccl == dtype) return torch;
    return dtype;
  }

  // A call within a launch of NCCL on its thread launched the group's kernel.
  void describe_kernels() {
    for (auto& [thread, launches] : launches_)
      std::sort(launches.begin(), launches.end(),
                [](const Launch& a, const Launch& b) { return a.start < b.start; });
    std::map<std::pair<StringId, StringId>, const std::vector<Launch>*> by_lane;
    for (const auto& [thread, launches] : launches_) {
      constexpr std::uint64_t kMask = 0xffffff;
      const auto id = static_cast<std::uint64_t>(thread);
      by_lane[{recording_.strings.intern(fmt::to_string(id >> 24U & kMask)),
               recording_.strings.intern(fmt::to_string(id & kMask))}] = &launches;
    }
    std::vector<std::int64_t> group_of(recording_.correlations);
    std::vector<bool> has_group(recording_.correlations);
    const run::CallColumns& calls = recording_.calls;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const run::Lane& lane = recording_.lanes[calls.lane[i].row()];
      const auto found = by_lane.find({lane.process, lane.thread});
      if (found == by_lane.end() || !calls.correlation[i]) continue;
      const auto after =
          std::upper_bound(found->second->begin(), found->second->end(), calls.start[i],
                           [](Ns at, const Launch& launch) { return at < launch.start; });
      if (after == found->second->begin() || std::prev(after)->end < calls.end[i]) continue;
      group_of[calls.correlation[i].row()] = std::prev(after)->group;
      has_group[calls.correlation[i].row()] = true;
    }
    run::ActivityColumns& rows = recording_.activities;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!rows.correlation[i] || !has_group[rows.correlation[i].row()]) continue;
      const auto group = collectives_.find(group_of[rows.correlation[i].row()]);
      if (group == collectives_.end() || group->second.size() != 1) continue;
      rows.collective[i] = run::CollectiveRow(recording_.collectives.size());
      recording_.collectives.push_back(group->second.front());
    }
  }

  const ForeignDatabase& database_;
  run::Recording& recording_;
  std::map<std::int64_t, std::string> texts_;  // NCCL's own
  std::map<std::int64_t, std::int64_t> ranks_, parents_;
  std::map<std::int64_t, std::vector<Launch>> launches_;                      // by thread
  std::map<std::int64_t, std::vector<run::RecordedCollective>> collectives_;  // by group call
};

}  // namespace

bool is_raw_recording(const ForeignDatabase& database) {
  return database.table(kProcess) != nullptr;
}

Status read_raw_recording(const ForeignDatabase& database, NsysTrace& trace) {
  return Reading(database, trace).read();
}

}  // namespace foregather::traces
