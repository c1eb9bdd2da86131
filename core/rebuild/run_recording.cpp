#include "core/rebuild/run_recording.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "core/run/kernel_names.h"

namespace foregather::rebuild {
namespace {

using run::OpRow;

class RecordingWriting {
 public:
  RecordingWriting(run::RunView run, run::ClassRow rank_class, std::optional<run::StepRow> step)
      : run_(run), class_(rank_class), step_(step) {}

  run::Recording write() {
    recording_.source = run_.about.source;
    recording_.strings = run_.strings;
    recording_.rank = run_.classes[class_.row()].ranks.front();
    recording_.world_size = run_.about.world_size;
    recording_.base = 1;  // ranks of a run share its clock
    recording_.is_part = run_.classes.size() > 1;
    if (!run_.about.hardware.empty()) recording_.devices.push_back(run_.about.hardware);
    choose_ops();
    add_calls();
    for (const std::size_t op : ops_) add_activity(op);
    add_collectives();
    add_kernels();
    recording_.known.works = run_.works;
    if (run_.about.kind == run::RunKind::predicted)
      launch_as_issued();
    else
      add_waits();
    recording_.correlations = run_.calls.size() + (has_own_launches_ ? ops_.size() : 0);
    return std::move(recording_);
  }

 private:
  void choose_ops() {
    for (std::size_t s = 0; s < run_.steps.size(); ++s) {
      if (run_.steps[s].rank_class != class_ || (step_ && step_->row() != s)) continue;
      const run::OpSpan span = run::ops_of(run_, run::StepRow(s));
      for (std::size_t op = span.first; op < span.last; ++op) {
        activity_of_.emplace(op, ops_.size());
        ops_.push_back(op);
      }
    }
  }

  StringId text(std::string_view text) { return recording_.strings.intern(text); }
  std::string_view name(StringId id) const { return id ? run_.text_of(id) : std::string_view(); }

  // "DEVICE/STREAM", as an imported stream is called.
  run::LaneRow lane(run::StreamRow stream) {
    const auto [known, is_new] = lanes_.try_emplace(stream.row());
    if (is_new) {
      const std::string_view whole = name(run_.streams[stream.row()].name);
      const std::size_t slash = whole.rfind('/');
      known->second = add_lane(slash == whole.npos ? "" : whole.substr(0, slash),
                               slash == whole.npos ? whole : whole.substr(slash + 1));
    }
    return known->second;
  }
  run::LaneRow add_lane(std::string_view process, std::string_view thread) {
    recording_.lanes.push_back({text(process), text(thread)});
    return run::LaneRow(recording_.lanes.size() - 1);
  }

  // Correlation ids are rows of the run's calls.
  void add_calls() {
    std::vector<run::LaneRow> threads(run_.threads.size());
    for (std::size_t t = 0; t < threads.size(); ++t)
      if (run_.threads[t].rank_class == class_)
        threads[t] = add_lane(name(run_.threads[t].process), name(run_.threads[t].name));
    for (std::size_t i = 0; i < run_.calls.size(); ++i) {
      const run::HostCallRecord& call = run_.calls[i];
      if (const run::LaneRow thread = threads[call.thread.row()])
        add_call(thread, call.name, call.start, call.end, i);
    }
  }
  void add_call(run::LaneRow thread, StringId called, Ns start, Ns end, std::size_t correlation) {
    run::CallColumns& rows = recording_.calls;
    rows.lane.push_back(thread);
    rows.name.push_back(called ? called : text(""));
    rows.start.push_back(start);
    rows.end.push_back(end);
    rows.correlation.emplace_back(correlation);
    rows.external.emplace_back();
  }

  void add_activity(std::size_t op) {
    const run::OpColumns& ops = run_.ops;
    run::ActivityColumns& rows = recording_.activities;
    const StringId source = ops.source[op] ? ops.source[op] : text("");
    rows.lane.push_back(lane(ops.stream[op]));
    rows.kind.push_back(activity_kind(ops.kind[op], name(ops.source[op])));
    rows.name.push_back(source);
    // What early ranks wait is part of what a tool records.
    rows.start.push_back(ops.start[op]);
    rows.end.push_back(ops.end[op]);
    rows.correlation.push_back(ops.launch[op] ? run::CorrelationId(ops.launch[op].row())
                                              : run::CorrelationId());
    rows.external.emplace_back();
    rows.bytes.push_back(is_collective(ops.kind[op]) ? 0 : ops.bytes[op]);
    rows.threads.push_back(0);
    rows.collective.emplace_back();
    recording_.known.micro_batch.push_back(ops.micro_batch[op]);
    recording_.known.ordinal.push_back(ops.ordinal[op]);
    recording_.known.kind.push_back(ops.kind[op]);
    recording_.known.phase.push_back(ops.phase[op]);
    recording_.known.scope.push_back(ops.scope[op] ? ops.scope[op] : text(""));
    recording_.known.bytes.push_back(ops.bytes[op]);
    recording_.known.wire_bytes.push_back(ops.wire_bytes[op]);
    recording_.known.flops.push_back(ops.flops[op]);
  }

  // The kind from whose name the op's kind follows, where there is one.
  static run::ActivityKind activity_kind(OpKind kind, std::string_view kernel) {
    constexpr std::array kGuesses{run::ActivityKind::kernel, run::ActivityKind::memcpy,
                                  run::ActivityKind::memset};
    const auto* const guess = std::find_if(kGuesses.begin(), kGuesses.end(), [&](auto candidate) {
      return run::op_kind(candidate, kernel) == kind;
    });
    return guess == kGuesses.end() ? run::ActivityKind::kernel : *guess;
  }

  void add_collectives() {
    for (const run::CollectiveRecord& said : run_.collectives) {
      const auto activity = activity_of_.find(said.op.row());
      if (activity == activity_of_.end()) continue;
      recording_.activities.collective[activity->second] =
          run::CollectiveRow(recording_.collectives.size());
      recording_.collectives.push_back({said.name, said.dtype, said.group, said.ranks,
                                        said.in_elements, said.out_elements, said.group_size,
                                        said.sequence});
    }
  }

  void add_kernels() {
    if (!run_.kernel_launches.empty()) recording_.known.operators.resize(ops_.size());
    for (const run::KernelLaunch& said : run_.kernel_launches) {
      const auto activity = activity_of_.find(said.op.row());
      if (activity == activity_of_.end()) continue;
      recording_.activities.threads[activity->second] = said.threads;
      recording_.known.operators[activity->second] = {said.name, said.shapes, said.types,
                                                      said.values, said.is_alone};
    }
  }

  void add_wait(run::LaneRow waiting, run::CorrelationId call, run::CorrelationId recorded,
                StringId awaited) {
    run::SyncColumns& rows = recording_.syncs;
    rows.lane.push_back(waiting);
    rows.name.push_back(text("wait"));
    rows.start.push_back(0);
    rows.end.push_back(0);
    rows.correlation.push_back(call);
    rows.recorded.push_back(recorded);
    rows.awaited_stream.push_back(awaited);
  }

  void add_waits() {
    const auto correlation = [](run::HostCallRow call) {
      return call ? run::CorrelationId(call.row()) : run::CorrelationId();
    };
    for (const run::StreamWaitRecord& wait : run_.waits)
      if (run_.streams[wait.stream.row()].rank_class == class_)
        add_wait(lane(wait.stream), correlation(wait.call), correlation(wait.recorded),
                 wait.awaited);
  }

  void launch_as_issued() {
    has_own_launches_ = true;
    const run::LaneRow thread = add_lane("host", "launches");
    const StringId launch = text("cudaLaunchKernel");
    std::vector<std::size_t> order(ops_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return run_.ops.issued[ops_[a]] < run_.ops.issued[ops_[b]];
    });
    const auto correlation = [&](std::size_t i) {
      return run::CorrelationId(run_.calls.size() + i);
    };
    for (const std::size_t i : order) {
      const std::size_t op = ops_[i];
      add_call(thread, launch, run_.ops.issued[op], run_.ops.issued[op], run_.calls.size() + i);
      recording_.activities.correlation[i] = correlation(i);
      const OpRow bound = run_.ops.bound_by[op];
      if (!bound || run_.ops.stream[bound.row()] == run_.ops.stream[op]) continue;
      const auto before = activity_of_.find(bound.row());
      if (before == activity_of_.end()) continue;
      add_wait(lane(run_.ops.stream[op]), correlation(i), correlation(before->second),
               recording_.lanes[lane(run_.ops.stream[bound.row()]).row()].thread);
    }
  }

  run::RunView run_;
  run::ClassRow class_;
  std::optional<run::StepRow> step_;
  run::Recording recording_;
  std::vector<std::size_t> ops_;                              // of the run, by activity
  std::unordered_map<std::size_t, std::size_t> activity_of_;  // by op of the run
  std::unordered_map<std::uint32_t, run::LaneRow> lanes_;     // by stream of the run
  bool has_own_launches_ = false;
};

}  // namespace

run::Recording recording_of(run::RunView run, run::ClassRow rank_class,
                            std::optional<run::StepRow> step) {
  return RecordingWriting(run, rank_class, step).write();
}

}  // namespace foregather::rebuild
