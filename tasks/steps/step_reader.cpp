#include "tasks/steps/step_reader.h"

#include <algorithm>
#include <span>
#include <tuple>

#include "tasks/steps/wire_bytes.h"

namespace foregather::tasks {
namespace {

using Span = compare::Interval;
using compare::IntervalSet;

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

// Ops of a stream follow each other, so each list is in order, or nearly.
const std::vector<Span>& StepReader::in_order(std::vector<std::vector<Span>>& by_stream) {
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
StepTimes StepReader::read(const sim::Simulation& simulation, std::uint32_t rank_class) {
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
const IntervalSet& StepReader::work_of(const sim::Simulation& simulation,
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
Ns StepReader::host_bound(const sim::Simulation& simulation, std::uint32_t rank_class,
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
  const Ns begin = step.begin;
  const sim::OpTime* time = &last;
  Ns host = 0, cursor = step.end;
  for (std::size_t count = 0; count < most; ++count) {
    const sim::OpTime& op = *time;
    const bool met = op.reason == sim::Reason::rendezvous;
    cursor = std::min(cursor, std::max(met ? op.transfer : op.start, begin));
    time = op.reason == sim::Reason::start || op.bound_previous_step
               ? nullptr
               : steps[op.bound_class].find(op.bound_by);
    const bool goes_on = time != nullptr && time != &op && cursor > begin && time->start <= cursor;
    Ns reached = begin;
    if (goes_on) reached = met ? cursor : std::clamp(time->end, begin, cursor);
    if (reached < cursor && (op.reason == sim::Reason::host || op.reason == sim::Reason::start))
      host +=
          cursor - reached - compare::covered(work_of(simulation, rank_class), {reached, cursor});
    cursor = reached;
    if (!goes_on) break;
    rank_class = op.bound_class;
  }
  return host;
}

}  // namespace foregather::tasks
