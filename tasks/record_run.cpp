#include "tasks/record_run.h"

#include <algorithm>

#include "tasks/steps/wire_bytes.h"

namespace foregather::tasks {
namespace {

using run::ClassRow;
using run::OpRow;
using run::StepKind;
using run::StepRow;

run::BoundReason converted(sim::Reason reason) {
  switch (reason) {
    case sim::Reason::start: return run::BoundReason::start;
    case sim::Reason::host: return run::BoundReason::host;
    case sim::Reason::stream: return run::BoundReason::stream;
    case sim::Reason::event: return run::BoundReason::event;
    case sim::Reason::communicator: return run::BoundReason::communicator;
    case sim::Reason::rendezvous: return run::BoundReason::rendezvous;
    case sim::Reason::dependency: return run::BoundReason::dependency;
  }
  return run::BoundReason::start;
}

// One step of one class: where its ops go in the run.
struct Part {
  std::uint32_t rank_class = 0;
  StepKind kind = StepKind::first;
  const sim::StepResult* step = nullptr;
  const Program* program = nullptr;
  std::vector<std::uint32_t> order;  // rows of the program's ops that ran, by start
  std::vector<OpRow> rows;           // by row of the program's ops
};

class Recorder {
 public:
  Recorder(const Graph& graph, std::span<const sim::CostTable> prices,
           const sim::Simulation& simulation)
      : graph_(graph), prices_(prices), simulation_(simulation) {
    const bool only_first = simulation.oom && simulation.oom->in_first_step;
    const bool is_one_step = std::all_of(simulation.classes.begin(), simulation.classes.end(),
                                         [](const auto& each) { return each.first.ran.empty(); });
    if (only_first || !is_one_step) kinds_.push_back(StepKind::first);
    if (!only_first) kinds_.push_back(StepKind::steady);
  }

  run::Run record() {
    copy_texts();
    add_classes();
    add_communicators();
    arrange();
    for (const Part& part : parts_) add_step(part);
    run_.ops.reserve(op_count_);
    for (std::uint32_t i = 0; i < parts_.size(); ++i) add_ops(parts_[i], StepRow(i));
    for (std::uint32_t i = 0; i < parts_.size(); ++i) add_memory(parts_[i], StepRow(i));
    if (simulation_.oom) add_failure(*simulation_.oom);
    return std::move(run_);
  }

 private:
  // Ids of the graph's texts stay valid in the run.
  void copy_texts() { run_.strings = graph_.strings; }

  void add_classes() {
    for (const RankClass& rank_class : graph_.classes) {
      run::ClassInfo info{rank_class.name, {}};
      const auto ranks = graph_.ranks_of(rank_class.ranks);
      info.ranks.assign(ranks.begin(), ranks.end());
      const ClassRow row = run_.add(info);
      first_stream_.push_back(run_.streams.size());
      for (const Stream& stream : graph_.at(rank_class.program).streams)
        run_.add(run::StreamInfo{row, stream.name, stream.priority});
    }
    for (const sim::CostTable& table : prices_) {
      sources_.emplace_back();
      for (const std::string& source : table.sources) sources_.back().push_back(run_.text(source));
    }
  }

  void add_communicators() {
    for (const Communicator& communicator : graph_.communicators) {
      const Group& group = graph_.at(communicator.group);
      run_.add(run::CommunicatorInfo{communicator.name, group.ranks.count, group.nodes});
    }
  }

  // Decides the row of every op before any is added: ops refer to later ones.
  void arrange() {
    for (std::uint32_t c = 0; c < graph_.classes.size(); ++c) {
      const sim::ClassResult& result = simulation_.classes[c];
      for (const StepKind kind : kinds_) {
        Part part{c,
                  kind,
                  kind == StepKind::first ? &result.first : &result.steady,
                  &graph_.at(graph_.classes[c].program),
                  {},
                  {}};
        arrange(part);
        parts_.push_back(std::move(part));
      }
    }
  }

  void arrange(Part& part) {
    const auto& times = part.step->ops;
    for (std::uint32_t i = 0; i < times.size(); ++i)
      if (part.step->ran[i] != 0) part.order.push_back(i);
    std::stable_sort(part.order.begin(), part.order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return times[a].start < times[b].start;
    });
    part.rows.resize(part.program->ops.count);
    for (const std::uint32_t local : part.order) part.rows[local] = OpRow(op_count_++);
  }

  // Where the op of a graph row is in the part's own step; absent if it did not run.
  OpRow row_of(const Part& part, std::uint32_t op) const {
    return part.program->ops.contains(op) ? part.rows[op - part.program->ops.first] : OpRow();
  }

  void add_step(const Part& part) {
    const sim::StepResult& step = *part.step;
    run::StepInfo info;
    info.rank_class = ClassRow(part.rank_class);
    info.kind = part.kind;
    info.number = part.kind == StepKind::first ? 0 : 1;
    info.begin = step.begin;
    info.end = step.end;
    info.host_end = step.host_end;
    info.peak_requested = step.peaks.requested;
    info.peak_allocated = step.peaks.allocated;
    info.peak_active = step.peaks.active;
    info.peak_reserved = step.peaks.reserved;
    if (step.peaks.at) info.peak_at = row_of(part, step.peaks.at->row());
    run_.add(info);
  }

  void add_ops(const Part& part, StepRow step) {
    for (const std::uint32_t local : part.order) {
      run::OpRecord record = described(part, graph_.ops[part.program->ops.first + local]);
      record.step = step;
      copy_times(part, part.step->ops[local], record);
      run_.ops.append(record);
    }
  }

  run::OpRecord described(const Part& part, const Op& op) const {
    const Cost& cost = graph_.at(op.cost);
    const std::uint32_t hardware = graph_.classes[part.rank_class].hardware;
    const sim::Price& price = prices_[hardware].prices[op.cost.row()];
    run::OpRecord record;
    record.stream = run::StreamRow(first_stream_[part.rank_class] + op.stream.row());
    record.micro_batch = op.micro_batch;
    record.ordinal = op.ordinal;
    record.kind = op.kind;
    record.role = op.role;
    record.phase = op.phase;
    if (op.scope) record.scope = graph_.at(op.scope).name;
    if (op.unit && graph_.at(op.unit).scope) record.unit = graph_.at(graph_.at(op.unit).scope).name;
    if (op.communicator) record.communicator = run::CommunicatorRow(op.communicator.row());
    record.sequence = op.sequence;
    record.alone = price.duration;
    if (price.source < sources_[hardware].size()) record.source = sources_[hardware][price.source];
    record.bytes =
        is_collective(op.kind) ? cost.message_bytes : cost.bytes_read + cost.bytes_written;
    record.wire_bytes = wire_bytes(graph_, op);
    record.flops = cost.flops;
    return record;
  }

  void copy_times(const Part& part, const sim::OpTime& time, run::OpRecord& record) const {
    record.issued = time.issued;
    record.start = time.start;
    record.transfer = time.transfer;
    record.end = time.end;
    record.reason = converted(time.reason);
    record.bound_by_previous_step = time.bound_previous_step;
    if (time.reason == sim::Reason::start || time.bound_previous_step) return;
    const std::size_t other = std::size_t{time.bound_class} * kinds_.size() +
                              (part.kind == StepKind::first ? 0 : kinds_.size() - 1);
    record.bound_by = row_of(parts_[other], time.bound_by);
  }

  void add_memory(const Part& part, StepRow step) {
    for (const sim::Binding& binding : part.step->bindings) add_binding(part, step, binding);
    for (const sim::SegmentChange& segment : part.step->segments) add_segment(part, step, segment);
    for (const sim::MemoryPoint& point : part.step->memory)
      run_.add(run::MemoryRecord{step, point.time, point.requested, point.allocated, point.active,
                                 point.reserved});
    for (std::size_t cause = 0; cause < kScheduleCauses; ++cause)
      if (part.step->peaks.by_cause[cause] != 0)
        run_.add(
            run::CauseRecord{step, static_cast<Cause>(cause), part.step->peaks.by_cause[cause]});
  }

  void add_binding(const Part& part, StepRow step, const sim::Binding& binding) {
    const Storage& storage = graph_.at(binding.storage);
    run::BindingRecord record;
    record.step = step;
    record.name = storage.name;
    if (storage.scope) record.scope = graph_.at(storage.scope).name;
    record.cause = storage.cause;
    record.bytes = storage.bytes;
    record.block_bytes = binding.block_bytes;
    record.address = binding.address;
    record.allocated = binding.allocated;
    record.freed = binding.freed;
    record.from_before = binding.from_before;
    record.still_bound = binding.still_bound;
    if (!binding.from_before) record.before_op = row_of(part, binding.before_op);
    run_.add(record);
  }

  void add_segment(const Part& part, StepRow step, const sim::SegmentChange& segment) {
    run_.add(run::SegmentRecord{
        step, run::StreamRow(first_stream_[part.rank_class] + segment.stream.row()),
        static_cast<run::SegmentChange>(segment.kind), segment.large, segment.expandable,
        segment.time, segment.address, segment.bytes});
  }

  // In the last step of its class.
  void add_failure(const sim::OutOfMemory& oom) {
    const std::size_t part = (std::size_t{oom.rank_class} + 1) * kinds_.size() - 1;
    run::FailureRecord record;
    record.step = StepRow(part);
    record.name = graph_.at(oom.storage).name;
    record.bytes = oom.requested;
    if (oom.op) {
      const Op& op = graph_.at(*oom.op);
      record.phase = op.phase;
      record.kind = op.kind;
      record.ordinal = op.ordinal;
      record.micro_batch = op.micro_batch;
      if (op.scope) record.scope = graph_.at(op.scope).name;
    }
    record.time = parts_[part].step->host_end;
    run_.add(record);
  }

  const Graph& graph_;
  std::span<const sim::CostTable> prices_;
  const sim::Simulation& simulation_;
  std::vector<StepKind> kinds_;  // of the steps that happened
  run::Run run_;
  std::vector<Part> parts_;  // class × step
  std::size_t op_count_ = 0;
  std::vector<std::size_t> first_stream_;       // of each class
  std::vector<std::vector<StringId>> sources_;  // of each price table
};

}  // namespace

run::Run record_run(const Graph& graph, std::span<const sim::CostTable> prices,
                    const sim::Simulation& simulation) {
  return Recorder(graph, prices, simulation).record();
}

}  // namespace foregather::tasks
