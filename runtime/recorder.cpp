#include "runtime/recorder.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "runtime/host/rating.h"

namespace foregather::runtime {
namespace {

constexpr std::array<std::string_view, 7> kCallNames{
    "hostLaunch",           "hostEventRecord",       "hostStreamWaitEvent",
    "hostEventSynchronize", "hostStreamSynchronize", "hostDeviceSynchronize",
    "hostThreadWait"};

constexpr std::array kDTypes{DType::f32,    DType::bf16, DType::f16, DType::f64, DType::f8e4m3,
                             DType::f8e5m2, DType::i64,  DType::i32, DType::u8,  DType::boolean};

// As torch.profiler calls them, which readers know.
std::string_view recorded_name(DType type) {
  switch (type) {
    case DType::f32: return "Float";
    case DType::bf16: return "BFloat16";
    case DType::f16: return "Half";
    case DType::f64: return "Double";
    case DType::i64: return "Long";
    case DType::i32: return "Int";
    case DType::boolean: return "Bool";
    default: return "Byte";
  }
}

// Equal names are equal work, in any run.
std::string kernel_name(std::string_view backend, const Cost& cost) {
  std::string text = fmt::format("{} {} {}", backend, name(cost.kind), name(cost.dtype));
  if (is_collective(cost.kind)) return text;
  if (cost.is_fixed) return text + fmt::format(" {} ns", cost.fixed_time);
  if (cost.n > 0) text += fmt::format(" {}x{}x{}x{}", cost.batch, cost.m, cost.n, cost.k);
  text += fmt::format(" {} FLOP {}+{} B", cost.flops, cost.bytes_read, cost.bytes_written);
  return cost.kernels == 1 ? text : text + fmt::format(" in {}", cost.kernels);
}

}  // namespace

Recorder::Recorder(const Job& job, run::RecordingSink& sink, Ns flush_interval,
                   std::string_view backend)
    : job_(job), graph_(*job.graph), sink_(sink) {
  add_tables(backend);
  writer_ = std::thread([this, flush_interval] { work(flush_interval); });
}

Recorder::~Recorder() {
  if (writer_.joinable()) (void)finish();
}

void Recorder::add_tables(std::string_view backend) {
  const auto text = [&](StringId id) { return id ? sink_.text(graph_.text(id)) : StringId(); };
  for (const std::string_view call : kCallNames) call_names_.push_back(sink_.text(call));
  for (const DType type : kDTypes) dtype_names_.push_back(sink_.text(recorded_name(type)));
  for (std::uint32_t r = 0; r < job_.ranks.size(); ++r) {
    Rank rank;
    rank.program = &graph_.at(graph_.classes[job_.class_of[r]].program);
    rank.first_stream = static_cast<std::uint32_t>(stream_names_.size());
    const run::ClassRow row = sink_.add(
        run::ClassInfo{sink_.text(fmt::format("rank {}", job_.ranks[r])), {job_.ranks[r]}});
    for (const Stream& stream : rank.program->streams) {
      stream_names_.push_back(sink_.text(graph_.text(stream.name)));
      sink_.add(run::StreamInfo{
          row, sink_.text(fmt::format("{}/{}", job_.ranks[r], graph_.text(stream.name))),
          stream.priority});
    }
    for (std::size_t t = 0; t < rank.program->threads.size(); ++t) {
      const auto thread =
          sink_.add(run::ThreadInfo{row, sink_.text(fmt::format("rank {}", job_.ranks[r])),
                                    text(rank.program->threads[t].name)});
      if (t == 0) rank.first_thread = thread.row();
    }
    ranks_.push_back(std::move(rank));
  }
  for (const Communicator& communicator : graph_.communicators) {
    const Group& group = graph_.at(communicator.group);
    group_names_.push_back(text(communicator.name));
    sink_.add(run::CommunicatorInfo{group_names_.back(), group.ranks.count, group.nodes});
  }
  std::set<StringId> known;
  for (const Op& op : graph_.ops) {
    const StringId unit = op.unit && graph_.at(op.unit).scope
                              ? text(graph_.at(graph_.at(op.unit).scope).name)
                              : StringId();
    const Cost& cost = graph_.at(op.cost);
    const StringId kernel = sink_.text(kernel_name(backend, cost));
    texts_.push_back({op.scope ? text(graph_.at(op.scope).name) : StringId(), unit, kernel});
    if (is_collective(cost.kind) || cost.is_fixed || !known.insert(kernel).second) continue;
    Cost work = cost;
    work.group = {};
    sink_.add(run::KernelWork{kernel, work});
  }
  for (const Storage& storage : graph_.storages) {
    storage_names_.push_back(text(storage.name));
    storage_scopes_.push_back(storage.scope ? text(graph_.at(storage.scope).name) : StringId());
  }
}

Recorder::OpenStep* Recorder::open_step(Rank& rank, std::uint32_t step) {
  for (OpenStep& open : rank.open)
    if (open.step == step) return &open;
  return nullptr;
}

void Recorder::begin_step(std::uint32_t r, std::uint32_t step, Ns time) {
  if (step == 0) return;
  const std::lock_guard lock(mutex_);
  Rank& rank = ranks_[r];
  if (step == 1) rank.last_end = time;
  run::StepInfo info;
  info.rank_class = run::ClassRow(r);
  info.kind = step == 1 ? run::StepKind::first : run::StepKind::other;
  info.number = step - 1;
  info.begin = info.end = info.host_end = std::max(time, rank.last_end);
  OpenStep& open = rank.open.emplace_back();
  open.step = step;
  open.row = run::StepRow(steps_.size());
  open.rows.resize(rank.program->ops.count);
  open.waits.resize(rank.program->ops.count);
  steps_.push_back(info);
  pending_.steps.push_back(info);
}

void Recorder::end_step(std::uint32_t r, std::uint32_t step, Ns time, std::uint32_t launched,
                        ledger::MemoryStep memory) {
  if (step == 0) return;
  const std::lock_guard lock(mutex_);
  Rank& rank = ranks_[r];
  OpenStep& open = *open_step(rank, step);
  steps_[open.row.row()].host_end = time;
  open.launched = launched;
  open.is_issued = true;
  open.memory = std::move(memory);
  finish_steps(rank);
}

run::HostCallRow Recorder::call(std::uint32_t r, std::uint32_t thread, HostCall kind, Ns start,
                                Ns end) {
  const std::lock_guard lock(mutex_);
  pending_.calls.push_back({run::ThreadRow(ranks_[r].first_thread + thread),
                            call_names_[static_cast<std::size_t>(kind)], start, end});
  return run::HostCallRow(calls_++);
}

void Recorder::wait(std::uint32_t r, StreamId stream, run::HostCallRow call,
                    run::HostCallRow recorded, StreamId awaited) {
  const std::lock_guard lock(mutex_);
  const std::uint32_t first = ranks_[r].first_stream;
  pending_.waits.push_back(
      {run::StreamRow(first + stream.row()), call, recorded, stream_names_[first + awaited.row()]});
}

void Recorder::done(const OpDone& event) {
  if (event.step == 0) return;
  const std::lock_guard lock(mutex_);
  if (awaits_row(event)) return park(event);
  record(event);
  const bool releases = std::ranges::any_of(waiting_, [&](const OpDone& each) {
    return each.bound_by == event.op && each.bound_rank == event.rank && each.step == event.step;
  });
  for (bool has_found = releases; has_found && !waiting_.empty();) {
    has_found = false;
    for (const OpDone& each : std::exchange(waiting_, {})) {
      if (awaits_row(each)) {
        park(each);
      } else {
        record(each);
        has_found = true;
      }
    }
  }
}

// Ranks leave a collective together: the last to arrive may be the last to tell. An op of the same
// rank tells before those that it bound, and may wait itself.
bool Recorder::awaits_row(const OpDone& event) const {
  if (!event.bound_by) return false;
  const Rank& by = ranks_[event.bound_rank];
  const std::size_t op = event.bound_by.row() - by.program->ops.first;
  const bool is_rendezvous = event.reason == run::BoundReason::rendezvous;
  for (const OpenStep& open : by.open)
    if (open.step == event.step) return is_rendezvous ? !open.rows[op] : bool(open.waits[op]);
  return is_rendezvous;
}

void Recorder::park(const OpDone& event) {
  Rank& rank = ranks_[event.rank];
  open_step(rank, event.step)->waits[event.op.row() - rank.program->ops.first] = true;
  waiting_.push_back(event);
}

void Recorder::record(const OpDone& event) {
  Rank& rank = ranks_[event.rank];
  OpenStep& open = *open_step(rank, event.step);
  const Op& op = graph_.at(event.op);
  const Cost& cost = graph_.at(op.cost);
  const OpTexts& texts = texts_[event.op.row()];
  run::OpRecord record;
  record.step = open.row;
  record.stream = run::StreamRow(rank.first_stream + op.stream.row());
  record.micro_batch = op.micro_batch;
  record.ordinal = op.ordinal;
  record.kind = op.kind;
  record.role = op.role;
  record.phase = op.phase;
  record.scope = texts.scope;
  record.unit = texts.unit;
  record.source = texts.source;
  if (op.communicator) record.communicator = run::CommunicatorRow(op.communicator.row());
  record.sequence = op.sequence;
  record.issued = event.issued;
  record.start = event.start;
  record.transfer = event.transfer;
  record.end = event.end;
  record.launch = event.call;
  record.reason = event.reason;
  if (event.bound_by) {
    Rank& by = ranks_[event.bound_rank];
    const OpenStep* const step = open_step(by, event.step);
    if (step != nullptr) record.bound_by = step->rows[event.bound_by.row() - by.program->ops.first];
    record.bound_by_previous_step =
        !record.bound_by && event.reason != run::BoundReason::rendezvous;
  }
  record.bytes = is_collective(op.kind) ? cost.message_bytes : cost.bytes_read + cost.bytes_written;
  record.flops = cost.flops;
  const run::OpRow row(ops_++);
  if (op.communicator) {
    const Group& group = graph_.at(graph_.at(op.communicator).group);
    record.wire_bytes =
        static_cast<Bytes>(sent_bytes(cost.kind, cost.message_bytes, group.ranks.count));
    const std::int64_t whole = cost.message_bytes / size_of(cost.dtype);
    const std::int64_t share = whole / std::max<std::int64_t>(group.ranks.count, 1);
    pending_.collectives.push_back({row,
                                    texts.source,
                                    dtype_names_[static_cast<std::size_t>(cost.dtype)],
                                    group_names_[op.communicator.row()],
                                    {},
                                    op.kind == OpKind::all_gather ? share : whole,
                                    op.kind == OpKind::reduce_scatter ? share : whole,
                                    group.ranks.count,
                                    std::nullopt});
  }
  pending_.ops.push_back(record);
  const std::size_t place = event.op.row() - rank.program->ops.first;
  open.rows[place] = row;
  open.waits[place] = false;
  ++open.ended;
  run::StepInfo& info = steps_[open.row.row()];
  info.end = std::max(info.end, event.end);
  finish_steps(rank);
}

// In order: a step begins where the device ended the one before.
void Recorder::finish_steps(Rank& rank) {
  for (OpenStep& open : rank.open) {
    if (open.is_finished) continue;
    if (!open.is_issued || open.ended != open.launched) break;
    run::StepInfo& info = steps_[open.row.row()];
    info.begin = rank.last_end;
    if (open.launched == 0) info.end = std::max(info.begin, info.host_end);
    rank.last_end = info.end = std::max(info.end, info.begin);
    add_memory(rank, open);
    pending_.changed.push_back(open.row);
    rank.finished.push_back(open.row);
    open.is_finished = true;
    open.memory = {};
  }
  // Other ranks may still ask for the ops of the last ones.
  constexpr std::size_t kKept = 4;
  while (rank.open.size() > kKept && rank.open.front().is_finished) rank.open.pop_front();
}

void Recorder::add_memory(const Rank& rank, const OpenStep& open) {
  run::StepInfo& info = steps_[open.row.row()];
  const ledger::MemoryPeaks& peaks = open.memory.peaks;
  info.peak_requested = peaks.requested;
  info.peak_allocated = peaks.allocated;
  info.peak_active = peaks.active;
  info.peak_reserved = peaks.reserved;
  if (peaks.at) info.peak_at = open.rows[peaks.at->row() - rank.program->ops.first];
  for (const ledger::Binding& binding : open.memory.bindings) {
    const std::uint32_t storage = binding.storage.row();
    run::BindingRecord record;
    record.step = open.row;
    record.name = storage_names_[storage];
    record.scope = storage_scopes_[storage];
    record.cause = graph_.storages[storage].cause;
    record.bytes = graph_.storages[storage].bytes;
    record.block_bytes = binding.block_bytes;
    record.address = binding.address;
    record.allocated = binding.allocated;
    record.freed = binding.freed;
    record.from_before = binding.from_before;
    record.still_bound = binding.still_bound;
    if (!binding.from_before && rank.program->ops.contains(binding.before_op))
      record.before_op = open.rows[binding.before_op - rank.program->ops.first];
    pending_.bindings.push_back(record);
  }
  for (const ledger::SegmentChange& segment : open.memory.segments)
    pending_.segments.push_back({open.row, run::StreamRow(rank.first_stream + segment.stream.row()),
                                 static_cast<run::SegmentChange>(segment.kind), segment.large,
                                 segment.expandable, segment.time, segment.address, segment.bytes});
  for (const ledger::MemoryPoint& point : open.memory.points)
    pending_.memory.push_back(
        {open.row, point.time, point.requested, point.allocated, point.active, point.reserved});
  for (std::size_t cause = 0; cause < kScheduleCauses; ++cause)
    if (const Bytes bytes = open.memory.peaks.by_cause[cause]; bytes != 0)
      pending_.causes.push_back({open.row, static_cast<Cause>(cause), bytes});
}

void Recorder::out_of_memory(std::uint32_t r, StorageId storage, std::optional<OpId> next,
                             Ns time) {
  const std::lock_guard lock(mutex_);
  if (ranks_[r].open.empty()) return;  // in init: there is no step to name
  run::FailureRecord record;
  record.step = ranks_[r].open.back().row;
  record.name = storage_names_[storage.row()];
  record.bytes = graph_.at(storage).bytes;
  record.time = time;
  if (next) {
    const Op& op = graph_.at(*next);
    record.micro_batch = op.micro_batch;
    record.ordinal = op.ordinal;
    record.kind = op.kind;
    record.phase = op.phase;
    record.scope = texts_[next->row()].scope;
  }
  pending_.failures.push_back(record);
}

std::int64_t Recorder::ops() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(ops_);
}

std::vector<run::StepInfo> Recorder::finished(std::uint32_t rank) const {
  std::vector<run::StepInfo> steps;
  for (const run::StepRow row : ranks_[rank].finished) steps.push_back(steps_[row.row()]);
  return steps;
}

// The slowest rank's time of a step.
void Recorder::choose_steady() {
  std::map<std::uint32_t, std::pair<Ns, std::size_t>> steps;  // by number: time and ranks
  for (const Rank& rank : ranks_)
    for (const run::StepRow row : rank.finished) {
      const run::StepInfo& info = steps_[row.row()];
      if (info.number == 0) continue;
      auto& [time, count] = steps[info.number];
      time = std::max(time, info.end - info.begin);
      ++count;
    }
  std::vector<std::pair<Ns, std::uint32_t>> times;
  for (const auto& [number, step] : steps)
    if (step.second == ranks_.size()) times.emplace_back(step.first, number);
  if (times.empty()) return;
  std::sort(times.begin(), times.end());
  const auto& [time, number] = times[(times.size() - 1) / 2];
  median_ = time;
  for (const Rank& rank : ranks_)
    for (const run::StepRow row : rank.finished)
      if (steps_[row.row()].number == number) {
        steps_[row.row()].kind = run::StepKind::steady;
        pending_.changed.push_back(row);
      }
}

void Recorder::write_rows() {
  for (const auto& row : writing_.steps) sink_.add(row);
  for (const auto& row : writing_.calls) sink_.add(row);
  for (const auto& row : writing_.waits) sink_.add(row);
  for (const auto& row : writing_.ops) sink_.add(row);
  for (const auto& row : writing_.collectives) sink_.add(row);
  for (const auto& row : writing_.bindings) sink_.add(row);
  for (const auto& row : writing_.segments) sink_.add(row);
  for (const auto& row : writing_.memory) sink_.add(row);
  for (const auto& row : writing_.causes) sink_.add(row);
  for (const auto& row : writing_.failures) sink_.add(row);
}

Status Recorder::flush() {
  std::vector<std::pair<run::StepRow, run::StepInfo>> changed;
  writing_ = {};
  {
    const std::lock_guard lock(mutex_);
    std::swap(pending_, writing_);
    for (const run::StepRow row : writing_.changed) changed.emplace_back(row, steps_[row.row()]);
    for (const Rank& rank : ranks_)
      for (const OpenStep& open : rank.open)
        if (!open.is_finished) changed.emplace_back(open.row, steps_[open.row.row()]);
  }
  write_rows();
  for (const auto& [row, info] : changed) sink_.change(row, info);
  return sink_.commit();
}

void Recorder::work(Ns interval) {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      stopping_.wait_for(lock, std::chrono::nanoseconds(interval), [&] { return is_stopping_; });
      if (is_stopping_) return;
    }
    if (Status flushed = flush(); !flushed) {
      status_ = flushed;
      job_.events->failed(flushed.error());
      return;
    }
  }
}

Status Recorder::finish() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    stopping_.notify_all();
  }
  writer_.join();
  if (!status_) return status_;
  // Of a job that ended early.
  for (const OpDone& each : std::exchange(waiting_, {})) record(each);
  choose_steady();
  for (Rank& rank : ranks_)
    for (const OpenStep& open : rank.open)
      if (open.is_issued && !open.is_finished) {
        add_memory(rank, open);
        pending_.changed.push_back(open.row);
      }
  return flush();
}

}  // namespace foregather::runtime
