#include "core/rebuild/measured_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <tuple>

#include "core/rebuild/drift.h"
#include "core/rebuild/host_rows.h"
#include "core/rebuild/job.h"
#include "core/rebuild/meetings.h"
#include "core/rebuild/memory_rows.h"
#include "core/rebuild/rank_timeline.h"
#include "core/run/span.h"

namespace foregather::rebuild {
namespace {

/// One step of one recording.
struct Part {
  Part(std::int64_t number_of, const run::Recording& recording, std::uint32_t rank,
       Window&& window_of)
      : number(number_of), window(std::move(window_of)), ops(recording, rank, window) {}

  std::int64_t number;
  Window window;
  RankTimeline ops;
};

class RankWriting {
 public:
  RankWriting(const run::Recording& recording, std::uint32_t rank, MeasuredRun& measured)
      : recording_(recording), rank_(rank), measured_(measured), run_(measured.run) {}

  Status read_steps(std::optional<std::int64_t> step) {
    std::vector<std::int64_t> numbers = steps_of(recording_);
    if (step) numbers = {*step};
    for (const std::int64_t number : numbers)
      if (const Status status = add_part(number); !status) return status;
    if (!step && parts_.empty())
      if (const Status status = add_part({}); !status) return status;
    is_host_only_ = parts_.empty() && !recording_.host.empty() && recording_.ranges.size() > 0;
    if (is_host_only_) return run::check_span(recording_.source, host_end() - begin());
    if (parts_.empty())
      return fail_at(recording_.source, "has no device work{}, expected kernels",
                     step ? fmt::format(" in step {}", *step) : "");
    std::size_t kept = 0;
    for (const Part& part : parts_) kept += part.window.activities.size();
    if (!step && kept < recording_.activities.size())
      measured_.warnings.push_back(
          fmt::format("{}: {} device activities that no step launched are left out",
                      recording_.source, recording_.activities.size() - kept));
    return {};
  }

  /// The step of that number; null: it has none.
  const RankTimeline* step(std::int64_t number) const {
    for (const Part& part : parts_)
      if (part.number == number) return &part.ops;
    return nullptr;
  }
  void add_warnings() {
    if (parts_.empty()) return;
    if (auto devices = warning_of_devices(parts_.front().ops))
      measured_.warnings.push_back(std::move(*devices));
  }
  void add_numbers(std::set<std::int64_t>& numbers) const {
    for (const Part& part : parts_) numbers.insert(part.number);
  }

  /// First start, on the clock of the recording.
  Ns begin() const {
    if (is_host_only_)
      return *std::min_element(recording_.ranges.start.begin(), recording_.ranges.start.end());
    Ns first = parts_.front().window.begin;
    for (const Part& part : parts_) first = std::min(first, part.window.begin);
    return first;
  }

  /// Classes, streams and steps; `origin` is time 0 on the recording's clock.
  void write_tables(Ns origin) {
    origin_ = origin;
    class_ = run_.add(run::ClassInfo{run_.text(fmt::format("rank {}", rank_)), {rank_}});
    if (is_host_only_) {
      run::StepInfo info;
      info.rank_class = class_;
      info.begin = begin() - origin_;
      info.end = info.host_end = host_end() - origin_;
      host_window_.begin = begin();
      host_window_.end = info.end + origin_;
      memory_peaks(host_window_, info);
      steps_.push_back(run_.add(info));
    }
    for (const Part& part : parts_) {
      run::StepInfo info;
      info.rank_class = class_;
      info.kind = kind_of(part);
      info.number = static_cast<std::uint32_t>(std::clamp<std::int64_t>(part.number, 0, 1 << 30));
      info.begin = part.window.begin - origin_;
      info.end = part.window.end - origin_;
      info.host_end = info.begin;
      for (const RecordedCall& call : part.ops.timeline.calls)
        info.host_end = std::max(info.host_end, info.begin + call.end);
      memory_peaks(part.window, info);
      steps_.push_back(run_.add(info));
    }
  }

  /// `meetings` by number of the step.
  void write_ops(
      const std::map<std::int64_t, const std::vector<std::optional<Meeting>>*>& meetings) {
    HostRows host(recording_, class_, origin_, run_);
    if (is_host_only_) host.add_ranges(class_, origin_, run_);
    for (std::size_t p = 0; p < parts_.size(); ++p)
      write_ops(parts_[p], steps_[p], host, *meetings.at(parts_[p].number));
    host.add_waits([this](run::LaneRow lane) { return stream(lane); }, run_);
  }
  /// The first row of a step's ops; absent: it has no such step.
  std::optional<std::size_t> first_op(std::int64_t number) const {
    for (std::size_t p = 0; p < parts_.size(); ++p)
      if (parts_[p].number == number) return run::ops_of(run_, steps_[p]).first;
    return std::nullopt;
  }
  void write_memory() {
    UnusedMemory unused;
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      const Window& window = is_host_only_ ? host_window_ : parts_[s].window;
      write_memory(window, steps_[s]);
      unused = add_allocations(recording_, window, origin_, steps_[s], run_);
    }
    if (unused.without_address > 0)
      measured_.warnings.push_back(
          fmt::format("{}: {} memory events name no address, and tell no allocations",
                      recording_.source, unused.without_address));
  }

 private:
  Ns host_end() const {  // of a host-only recording
    return *std::max_element(recording_.ranges.end.begin(), recording_.ranges.end.end());
  }

  Status add_part(std::optional<std::int64_t> number) {
    auto window = window_of(recording_, number);
    if (!window) return tl::unexpected(window.error());
    if (window->activities.empty()) return {};
    parts_.emplace_back(number.value_or(0), recording_, rank_, std::move(*window));
    return {};
  }

  // The last step of a prediction stands for all that would follow.
  run::StepKind kind_of(const Part& part) const {
    if (&part == &parts_.back() && (recording_.is_predicted || parts_.size() == 1))
      return run::StepKind::steady;
    return recording_.is_predicted && part.number == 0 ? run::StepKind::first
                                                       : run::StepKind::other;
  }

  run::StreamRow stream(run::LaneRow lane) {
    const auto [known, is_new] = streams_.try_emplace(lane.row());
    if (is_new) known->second = run_.add(run::StreamInfo{class_, run_.text(lane_name(lane))});
    return known->second;
  }

  // By what a timeline calls it, else by its numbers.
  std::string lane_name(run::LaneRow lane) const {
    run::Lane names = recording_.lanes[lane.row()];
    if (lane.row() < recording_.labels.size()) {
      const run::LaneLabel& label = recording_.labels[lane.row()];
      if (label.process) names.process = label.process;
      if (label.thread) names.thread = label.thread;
    }
    return fmt::format("{}/{}", recording_.text(names.process), recording_.text(names.thread));
  }

  run::CommunicatorRow communicator(run::CollectiveRow row) {
    std::string name = "?";
    std::uint32_t ranks = recording_.world_size.value_or(1);
    if (row) {
      const run::RecordedCollective& collective = recording_.collectives[row.row()];
      name = recording_.text(collective.group);
      if (collective.group_size > 0) ranks = collective.group_size;
    }
    const auto [known, is_new] = communicators_.try_emplace(name);
    if (is_new)
      known->second = run_.add(run::CommunicatorInfo{run_.text(name), std::max(ranks, 1U), 1});
    return known->second;
  }

  void write_ops(const Part& part, run::StepRow step, HostRows& host,
                 const std::vector<std::optional<Meeting>>& meetings) {
    const Timeline& timeline = part.ops.timeline;
    const std::size_t first = run_.ops.size();
    const run::KnownOps& known = recording_.known;
    std::map<std::tuple<StringId, Phase, OpKind>, std::uint32_t> ordinals;
    std::map<std::uint32_t, std::uint32_t> sequences;  // by communicator
    for (std::size_t i = 0; i < timeline.ops.size(); ++i) {
      const RecordedOp& op = timeline.ops[i];
      const std::size_t row = op.activity.row();
      const std::string_view name = recording_.text(recording_.activities.name[row]);
      const OpLabel label = part.ops.labels.of(op);
      run::OpRecord record;
      record.step = step;
      record.stream = stream(timeline.streams[op.stream].lane);
      record.kind = label.kind;
      record.role = is_collective(record.kind) ? Role::other : Role::compute;
      record.phase = label.phase;
      record.scope = run_.text(label.scope);
      record.source = run_.text(name);
      if (known.kind.empty()) {
        record.ordinal = ordinals[{record.scope, record.phase, record.kind}]++;
      } else {
        record.micro_batch = known.micro_batch[row];
        record.ordinal = known.ordinal[row];
      }
      if (is_collective(record.kind)) {
        const run::CollectiveRow collective = part.ops.labels.collective(op);
        record.communicator = communicator(collective);
        record.sequence = sequences[record.communicator.row()]++;
        if (collective)
          record.bytes = message_bytes(recording_, recording_.collectives[collective.row()]);
      } else {
        record.bytes = recording_.activities.bytes[row];
      }
      if (!known.kind.empty()) {
        record.bytes = known.bytes[row];
        record.wire_bytes = known.wire_bytes[row];
        record.flops = known.flops[row];
      }
      const Ns base = part.window.begin - origin_;
      record.launch = host.launch(op.activity);
      record.issued = base + op.launched;
      if (op.has_launch) {  // maybe before the window: the host is ahead of its device
        const Ns called = recording_.calls.start[timeline.calls[op.call].row.row()];
        record.issued = std::min(called - timeline.clock_shift - origin_, base + op.start);
      }
      // As recorded: the timeline moves starts behind the rounded end before them.
      record.start = record.transfer = recording_.activities.start[row] - origin_;
      if (meetings[i]) record.transfer = std::max(record.start, base + meetings[i]->transfer);
      record.end = base + op.end;
      record.reason = op.reason;
      if (op.bound_by) record.bound_by = run::OpRow(first + *op.bound_by);
      const run::OpRow added = run_.add(record);
      if (is_collective(record.kind))
        host.add_collective(added, part.ops.labels.collective(op), run_);
      host.add_kernel(added, op.activity, run_);
    }
  }

  bool is_device_memory(std::size_t i) const {
    return recording_.text(recording_.memory.device[i]).starts_with("1:");
  }

  // The allocator's calls are the host's, which runs ahead of its device.
  bool is_memory_of(const Window& window, std::size_t i) const {
    const Ns time = recording_.memory.time[i];
    return time >= window.host_begin && time < window.host_end && is_device_memory(i);
  }

  void memory_peaks(const Window& window, run::StepInfo& info) const {
    const run::MemoryColumns& rows = recording_.memory;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!is_memory_of(window, i)) continue;
      info.peak_allocated = std::max(info.peak_allocated, rows.total_allocated[i]);
      info.peak_reserved = std::max(info.peak_reserved, rows.total_reserved[i]);
    }
  }

  void write_memory(const Window& window, run::StepRow step) {
    const run::MemoryColumns& rows = recording_.memory;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!is_memory_of(window, i) || rows.total_reserved[i] == 0) continue;
      run_.add(run::MemoryRecord{step, rows.time[i] - origin_, 0, rows.total_allocated[i], 0,
                                 rows.total_reserved[i]});
    }
  }

  const run::Recording& recording_;
  std::uint32_t rank_;
  MeasuredRun& measured_;
  run::Run& run_;
  std::deque<Part> parts_;
  Ns origin_ = 0;
  bool is_host_only_ = false;
  Window host_window_;  // of such a recording: all of it
  run::ClassRow class_;
  std::vector<run::StepRow> steps_;
  std::map<std::uint32_t, run::StreamRow> streams_;  // by lane
  std::map<std::string, run::CommunicatorRow> communicators_;
};

// Collectives that waited for a rank are bound by its part, or where none was recorded that came so
// late, by nothing that the run has.
void bind_to_last(const std::vector<RankWriting>& parts, std::int64_t number,
                  const Meetings& meetings, run::Run& run) {
  std::vector<std::optional<std::size_t>> firsts;  // by recording
  for (const RankWriting& part : parts) firsts.push_back(part.first_op(number));
  for (std::size_t i = 0; i < parts.size(); ++i)
    for (std::size_t op = 0; op < meetings[i].size(); ++op) {
      const std::optional<Meeting>& meeting = meetings[i][op];
      if (!meeting || !firsts[i] || !firsts[meeting->last]) continue;
      const std::size_t row = *firsts[i] + op;
      if (run.ops.transfer[row] <= run.ops.start[row]) continue;
      run.ops.reason[row] = run::BoundReason::rendezvous;
      if (meeting->last != i && meeting->lateness == 0)
        run.ops.bound_by[row] = run::OpRow(*firsts[meeting->last] + meeting->last_op);
    }
}

Result<MeasuredRun> measured_of(std::span<const run::Recording* const> recordings,
                                std::optional<std::int64_t> step, bool may_drift) {
  const auto ranks = ranks_of(recordings);
  if (!ranks) return tl::unexpected(ranks.error());
  MeasuredRun measured;
  std::vector<RankWriting> parts;
  parts.reserve(recordings.size());
  for (std::size_t i = 0; i < recordings.size(); ++i) {
    parts.emplace_back(*recordings[i], (*ranks)[i], measured);
    if (const Status status = parts.back().read_steps(step); !status)
      return tl::unexpected(status.error());
  }
  const std::vector<Ns> epochs = epochs_of(recordings);
  std::set<std::int64_t> numbers;
  for (const RankWriting& part : parts) part.add_numbers(numbers);
  std::vector<RankTimelines> windows;
  for (const std::int64_t number : numbers) {
    RankTimelines& ranks_of_step = windows.emplace_back();
    for (const RankWriting& part : parts) ranks_of_step.push_back(part.step(number));
  }
  if (may_drift)
    if (const auto undrifted = without_drift(recordings, windows, epochs)) {
      std::vector<const run::Recording*> corrected;
      for (const auto& recording : undrifted->recordings) corrected.push_back(recording.get());
      auto again = measured_of(corrected, step, false);
      if (again)
        again->warnings.insert(again->warnings.end(), undrifted->notes.begin(),
                               undrifted->notes.end());
      return again;
    }
  const PutTogether together = put_together(windows, epochs);
  measured.warnings.insert(measured.warnings.end(), together.warnings.begin(),
                           together.warnings.end());
  const bool share_epoch =
      std::all_of(epochs.begin(), epochs.end(), [](const Ns epoch) { return epoch != 0; });
  const auto compared = [&](std::size_t i) {
    const std::optional<Clock>& clock = together.clocks[i];
    return clock && clock->island == 0 ? clock : std::nullopt;
  };
  // What makes the times of a recording those of the first one's clock, where they can be compared.
  const auto shift = [&](std::size_t i) -> std::optional<Ns> {
    if (const auto clock = compared(i)) return epochs[i] - clock->offset;
    return share_epoch ? std::optional(epochs[i]) : std::nullopt;
  };
  std::optional<Ns> first;
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (const auto shifted = shift(i))
      first = std::min(first.value_or(parts[i].begin() + *shifted), parts[i].begin() + *shifted);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto shifted = shift(i);
    parts[i].write_tables(shifted ? *first - *shifted : parts[i].begin());
    measured.clocks.push_back({(*ranks)[i], compared(i)});
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::map<std::int64_t, const std::vector<std::optional<Meeting>>*> meetings;
    for (std::size_t w = 0; const std::int64_t number : numbers)
      meetings[number] = &together.meetings[w++][i];
    parts[i].write_ops(meetings);
  }
  for (std::size_t w = 0; const std::int64_t number : numbers)
    bind_to_last(parts, number, together.meetings[w++], measured.run);
  for (RankWriting& part : parts) {
    part.write_memory();
    part.add_warnings();
  }
  const bool is_predicted = std::ranges::any_of(
      recordings, [](const run::Recording* recording) { return recording->is_predicted; });
  measured.run.about.kind = is_predicted ? run::RunKind::predicted : run::RunKind::measured;
  measured.run.about.world_size = world_size_of(recordings, *ranks);
  return measured;
}

}  // namespace

Result<MeasuredRun> measured_run(std::span<const run::Recording* const> recordings,
                                 std::optional<std::int64_t> step) {
  return measured_of(recordings, step, true);
}

}  // namespace foregather::rebuild
