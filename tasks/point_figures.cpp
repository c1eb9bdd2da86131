#include "tasks/point_figures.h"

#include <algorithm>
#include <span>
#include <tuple>

#include "tasks/memory_figures.h"
#include "tasks/rates.h"
#include "tasks/wire_bytes.h"

namespace foregather::tasks {
namespace {

using Span = compare::Interval;
using compare::IntervalSet;

run::PointFigures::Peaks converted(const Peaks& peaks) {
  return {peaks.requested, peaks.allocated, peaks.active, peaks.reserved};
}

bool is_before(const Span& a, const Span& b) {
  return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
}

/// A class's steady step.
struct StepOps {
  Range rows;
  std::span<const sim::OpTime> times;  ///< of these rows; likewise `ran`
  std::span<const std::uint8_t> ran;

  const sim::OpTime* find(std::uint32_t row) const {
    return rows.contains(row) && ran[row - rows.first] != 0 ? &times[row - rows.first] : nullptr;
  }
};

}  // namespace

run::PointFigures figures_of(const Summary& summary) {
  run::PointFigures figures;
  figures.hardware = summary.hardware;
  figures.strategy = summary.strategy;
  figures.world_size = summary.world_size;
  figures.parameters = summary.parameters;
  figures.tokens_per_rank_step = summary.tokens_per_rank_step;
  figures.warnings = std::ssize(summary.warnings);
  if (summary.slow().times) {
    const StepTimes& times = *summary.slow().times;
    figures.times = {times.step,
                     times.busy.compute,
                     times.busy.comm,
                     times.busy.exposed,
                     times.host_bound,
                     times.busy.ops,
                     {},
                     {},
                     {}};
    // A recording's first step is any.
    if (summary.has_memory || summary.recorded.empty())
      figures.times->first_step = summary.first_step();
    if (summary.knows_waits(summary.slowest)) figures.times->comm_wait = times.busy.wait;
    if (summary.recorded.empty()) figures.times->on_wire = times.busy.wire_bytes;
    figures.tokens_per_second = summary.tokens_per_second;
    figures.mfu = summary.mfu;
  }
  if (!summary.has_memory) return figures;
  figures.memory = run::PointFigures::Memory{};
  run::PointFigures::Memory& memory = *figures.memory;
  memory.capacity = summary.capacity;
  memory.outside_allocator = summary.outside_allocator;
  memory.peaks = converted(summary.large().memory.peaks);
  memory.first_peaks = converted(summary.large().first_memory.peaks);
  memory.margin = summary.margin();
  if (!summary.oom) return figures;
  memory.oom_bytes = summary.oom->requested;
  memory.oom_op = summary.oom->op;
  return figures;
}

// Ops of a stream follow each other, so each list is in order, or nearly.
const std::vector<Span>& FigureReader::in_order(std::vector<std::vector<Span>>& by_stream) {
  merged_.clear();
  for (std::vector<Span>& stream : by_stream) {
    if (!std::is_sorted(stream.begin(), stream.end(), is_before))
      std::sort(stream.begin(), stream.end(), is_before);
    if (merged_.empty()) {
      merged_.swap(stream);
    } else if (!stream.empty()) {
      spare_.resize(merged_.size() + stream.size());
      std::merge(merged_.begin(), merged_.end(), stream.begin(), stream.end(), spare_.begin(),
                 is_before);
      merged_.swap(spare_);
    }
    stream.clear();
  }
  return merged_;
}

// As compare::busy_times().
StepTimes FigureReader::times_of(const sim::Simulation& simulation, std::uint32_t rank_class) {
  const sim::StepResult& step = simulation.classes[rank_class].steady;
  const Program& program = graph_->at(graph_->classes[rank_class].program);
  const Op* const ops = graph_->ops.data() + program.ops.first;
  compute_.resize(program.streams.size());
  comm_.resize(program.streams.size());
  StepTimes times;
  times.step = step.time();
  const sim::OpTime* last = nullptr;
  for (std::size_t local = 0; local < step.ops.size(); ++local) {
    if (step.ran[local] == 0) continue;
    const Op& op = ops[local];
    const sim::OpTime& time = step.ops[local];
    ++times.busy.ops;
    if (last == nullptr || time.end > last->end ||
        (time.end == last->end && time.start >= last->start))
      last = &time;
    if (!is_collective(op.kind)) {
      compare::append(compute_[op.stream.row()], {time.start, time.end});
      continue;
    }
    compare::append(comm_[op.stream.row()], {time.transfer, time.end});
    times.busy.wait += time.transfer - time.start;
    times.busy.wire_bytes += wire_bytes(*graph_, op);
  }
  const IntervalSet computing = compare::united(in_order(compute_));
  const IntervalSet communicating = compare::united(in_order(comm_));
  times.busy.compute = compare::length(computing);
  times.busy.comm = compare::length(communicating);
  times.busy.exposed =
      times.busy.comm - compare::length(compare::intersection(communicating, computing));
  times.host_bound = last == nullptr ? times.step : host_bound(simulation, rank_class, *last);
  return times;
}

// What the class's device does, with the waits of its collectives.
const IntervalSet& FigureReader::work_of(const sim::Simulation& simulation,
                                         std::uint32_t rank_class) {
  IntervalSet& work = works_[rank_class];
  if (!work.empty()) return work;
  const sim::StepResult& step = simulation.classes[rank_class].steady;
  const Program& program = graph_->at(graph_->classes[rank_class].program);
  const Op* const ops = graph_->ops.data() + program.ops.first;
  all_.resize(program.streams.size());
  for (std::size_t local = 0; local < step.ops.size(); ++local)
    if (step.ran[local] != 0)
      compare::append(all_[ops[local].stream.row()], {step.ops[local].start, step.ops[local].end});
  return work = compare::united(in_order(all_));
}

// As compare::critical_path(), of which this is `host`.
Ns FigureReader::host_bound(const sim::Simulation& simulation, std::uint32_t rank_class,
                            const sim::OpTime& last) {
  const sim::StepResult& step = simulation.classes[rank_class].steady;
  std::size_t most = 0;
  for (const sim::ClassResult& result : simulation.classes)
    most += result.first.ran.size() + result.steady.ran.size();
  std::vector<StepOps> steps;
  for (std::size_t c = 0; c < simulation.classes.size(); ++c) {
    const sim::StepResult& steady = simulation.classes[c].steady;
    steps.push_back({graph_->at(graph_->classes[c].program).ops, steady.ops, steady.ran});
  }
  works_.assign(simulation.classes.size(), {});
  const sim::OpTime* time = &last;
  Ns host = 0, cursor = step.end;
  for (std::size_t count = 0; count < most; ++count) {
    const bool met = time->reason == sim::Reason::rendezvous;
    cursor = std::min(cursor, std::max(met ? time->transfer : time->start, step.begin));
    const sim::OpTime* next = nullptr;
    if (time->reason != sim::Reason::start && !time->bound_previous_step)
      next = steps[time->bound_class].find(time->bound_by);
    const bool goes_on =
        next != nullptr && next != time && cursor > step.begin && next->start <= cursor;
    const Ns reached = goes_on ? std::clamp(next->end, step.begin, cursor) : step.begin;
    const Ns gap = goes_on && met ? 0 : cursor - reached;
    if (gap > 0 && (time->reason == sim::Reason::host || time->reason == sim::Reason::start))
      host += gap - compare::covered(work_of(simulation, rank_class), {reached, cursor});
    cursor -= gap;
    if (!goes_on) break;
    rank_class = time->bound_class;
    time = next;
  }
  return host;
}

run::PointFigures FigureReader::read(const sim::Simulation& simulation,
                                     const sim::Hardware& hardware, double compute_scale,
                                     const DeviceLimits& limits) {
  Summary summary;
  summary.hardware = hardware.name;
  summary.world_size = graph_->world_size;
  summary.parameters = graph_->parameters;
  summary.tokens_per_rank_step = graph_->tokens_per_rank_step;
  summary.capacity = limits.capacity;
  summary.outside_allocator = limits.outside_allocator;
  summary.classes.resize(graph_->classes.size());
  fill_memory(*graph_, simulation, summary);
  if (!simulation.oom) {
    Ns slowest = -1;
    for (std::uint32_t c = 0; c < graph_->classes.size(); ++c) {
      summary.classes[c].first_step = simulation.classes[c].first.time();
      summary.classes[c].times = times_of(simulation, c);
      if (summary.classes[c].times->step <= slowest) continue;
      slowest = summary.classes[c].times->step;
      summary.slowest = c;
    }
    summary.tokens_per_second = tokens_per_second(*graph_, slowest);
    summary.mfu = mfu(*graph_, hardware, slowest, compute_scale);
  }
  return figures_of(summary);
}

}  // namespace foregather::tasks
