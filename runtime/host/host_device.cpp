#include "runtime/host/host_device.h"

#include <sys/prctl.h>

#include <algorithm>

#include "core/ir/op_key.h"
#include "runtime/host/numbers.h"

namespace foregather::runtime {
namespace {

/// An op whose work takes longer than its rated time by less than that: the machine's scheduler.
constexpr Ns kTolerated = 200 * kMicrosecond;

}  // namespace

HostDevice::HostDevice(HostJob& shared, std::uint32_t rank, std::vector<Seat> seats)
    : shared_(shared),
      graph_(*shared.job.graph),
      rank_class_(graph_.classes[shared.job.class_of[rank]]),
      program_(graph_.at(rank_class_.program)),
      rank_(rank),
      seats_(std::move(seats)) {
  for (std::size_t i = 0; i < seats_.size(); ++i) turns_.push_back(std::make_unique<Turn>());
  for (std::size_t s = 0; s < program_.streams.size(); ++s)
    streams_.push_back(std::make_unique<Stream>());
}

Result<std::unique_ptr<HostDevice>> HostDevice::create(HostJob& shared, std::uint32_t rank,
                                                       std::vector<Seat> seats) {
  std::unique_ptr<HostDevice> device(new HostDevice(shared, rank, std::move(seats)));
  auto memory = Arena::create(shared.job.capacity, [raw = device.get()] { raw->finish_work(); });
  if (!memory) return tl::unexpected(memory.error());
  device->memory_ = std::move(*memory);
  for (std::uint32_t s = 0; s < device->streams_.size(); ++s)
    device->streams_[s]->worker = std::thread([raw = device.get(), s] { raw->run(s); });
  return device;
}

HostDevice::~HostDevice() { stop(); }

void HostDevice::stop() {
  for (const auto& stream : streams_) {
    const std::lock_guard lock(stream->mutex);
    stream->is_stopping = true;
    stream->queued.notify_all();
  }
  for (const auto& stream : streams_)
    if (stream->worker.joinable()) stream->worker.join();
}

void HostDevice::wake() {
  for (const auto& stream : streams_) {
    const std::lock_guard lock(stream->mutex);
    stream->queued.notify_all();
    stream->performed.notify_all();
  }
  for (const auto& turn : turns_) {
    const std::lock_guard lock(turn->mutex);
    turn->changed.notify_all();
  }
}

template <class Fill>
Mark HostDevice::enqueue(StreamId id, Fill&& fill) {
  Stream& stream = *streams_[id.row()];
  std::unique_lock lock(stream.mutex);
  stream.performed.wait(lock,
                        [&] { return stream.tail - stream.head < kPlaces || shared_.failed; });
  if (shared_.failed) return {id, 0};
  fill(stream.ring[stream.tail % kPlaces]);
  ++stream.tail;
  stream.queued.notify_one();
  return {id, stream.tail};
}

void HostDevice::fill(StreamId stream, std::byte* to, Bytes bytes, DType type, std::uint64_t seed) {
  synchronize(mark(stream));
  fill_known(to, bytes, type, seed, 0);
}

Mark HostDevice::launch(const Launch& launch) {
  const Op& op = graph_.at(launch.op);
  std::uint64_t ticket = 0;
  if (op.communicator) {
    Turn& turn = *turns_[op.communicator.row()];
    const std::lock_guard lock(turn.mutex);
    ticket = turn.launched++;
  }
  return enqueue(op.stream, [&](Item& item) {
    item.op = launch.op;
    item.step = launch.step;
    item.ticket = ticket;
    item.issued = launch.issued;
    item.call = launch.call;
    item.accesses.assign(launch.accesses.begin(), launch.accesses.end());
    item.marks.assign(launch.deps.begin(), launch.deps.end());
  });
}

Mark HostDevice::mark(StreamId id) {
  Stream& stream = *streams_[id.row()];
  const std::lock_guard lock(stream.mutex);
  return {id, stream.tail};
}

void HostDevice::wait(StreamId stream, Mark mark) {
  enqueue(stream, [&](Item& item) {
    item.op = {};
    item.accesses.clear();
    item.marks.assign(1, mark);
  });
}

bool HostDevice::has_happened(Mark mark) {
  Stream& stream = *streams_[mark.stream.row()];
  const std::lock_guard lock(stream.mutex);
  return stream.head >= mark.position;
}

void HostDevice::synchronize(Mark mark) { wait_for(mark, nullptr); }

// `bound`: when the awaited work ended, as far as the queue still knows.
bool HostDevice::wait_for(Mark mark, Bound* bound) {
  if (mark.position == 0) return true;
  Stream& stream = *streams_[mark.stream.row()];
  std::unique_lock lock(stream.mutex);
  stream.performed.wait(lock, [&] { return stream.head >= mark.position || shared_.failed; });
  if (shared_.failed) return false;
  if (bound != nullptr && stream.tail - mark.position < kPlaces) {
    const Item& awaited = stream.ring[(mark.position - 1) % kPlaces];
    if (awaited.end > bound->time) *bound = {awaited.end, run::BoundReason::event, awaited.by};
  }
  return true;
}

// After a failure, too, a worker may still be at its last item.
void HostDevice::finish_work() {
  for (const auto& stream : streams_) {
    std::unique_lock lock(stream->mutex);
    stream->performed.wait(
        lock, [&, last = stream->tail] { return stream->head >= last || stream->has_left; });
  }
}

void HostDevice::run(std::uint32_t s) {
  try {
    work(s);
  } catch (const std::exception& error) {
    shared_.job.events->failed(
        Error{{}, fmt::format("stream {} of rank {}: {}", s, rank_, error.what()), Fault::work});
  }
  Stream& stream = *streams_[s];
  const std::lock_guard lock(stream.mutex);
  stream.has_left = true;
  stream.performed.notify_all();
}

void HostDevice::work(std::uint32_t s) {
  ::prctl(PR_SET_TIMERSLACK, 1UL);  // ops end when they should, not 50 µs later
  Stream& stream = *streams_[s];
  Kernels kernels;
  Bound before{0, run::BoundReason::start, {}};
  while (true) {
    std::unique_lock lock(stream.mutex);
    stream.queued.wait(
        lock, [&] { return stream.head < stream.tail || stream.is_stopping || shared_.failed; });
    if (shared_.failed || stream.head == stream.tail) return;
    Item& item = stream.ring[stream.head % kPlaces];
    lock.unlock();
    for (const Mark& mark : item.marks)
      if (!wait_for(mark, &before)) return;
    if (item.op) {
      perform(item, kernels, before);
      before = {item.end, run::BoundReason::stream, item.op};
    }
    if (shared_.failed) return;
    lock.lock();
    item.end = before.time;
    item.by = before.by;
    ++stream.head;
    stream.performed.notify_all();
  }
}

void HostDevice::perform(Item& item, Kernels& kernels, Bound bound) {
  const Op& op = graph_.at(item.op);
  OpDone done{rank_, item.op, item.step,    item.call, item.issued, 0,
              0,     0,       bound.reason, bound.by,  rank_};
  if (item.issued > bound.time) {
    done.reason = run::BoundReason::host;
    done.bound_by = {};
  }
  if (op.communicator) {
    if (!meet(op, item, done)) return;
  } else {
    const Cost& cost = graph_.at(op.cost);
    if (cost.lead > 0) shared_.job.clock->sleep_until(shared_.job.clock->now() + cost.lead);
    done.start = done.transfer = shared_.job.clock->now();
    compute(op, item, kernels);
    done.end = shared_.job.clock->now();
  }
  item.end = done.end;
  shared_.job.events->done(done);
}

void HostDevice::compute(const Op& op, Item& item, Kernels& kernels) {
  const Clock& clock = *shared_.job.clock;
  const Ns begin = clock.now();
  const Cost& cost = graph_.at(op.cost);
  const auto time =
      static_cast<Ns>(static_cast<double>(rated_time(cost, shared_.rating)) *
                      rank_class_.compute_scale_ppm / 1e6 / shared_.job.speed(op.cost));
  const Kernels::Outcome outcome =
      kernels.perform(cost, item.accesses, seed_of(item.op.row(), rank_, item.step));
  if (outcome.is_checked_cast) {
    const std::lock_guard lock(shared_.mutex);
    ++shared_.report.checked_casts;
    shared_.report.checked_bytes += outcome.checked_bytes;
  }
  if (!outcome.wrong.empty()) report_wrong(item, outcome.wrong);
  count_overrun(clock.now() - begin - time);
  clock.sleep_until(begin + time);
}

bool HostDevice::meet(const Op& op, Item& item, OpDone& done) {
  const Clock& clock = *shared_.job.clock;
  Turn& turn = *turns_[op.communicator.row()];
  const Cost& cost = graph_.at(op.cost);
  {
    std::unique_lock lock(turn.mutex);
    turn.changed.wait(lock, [&] { return turn.ended == item.ticket || shared_.failed; });
    if (shared_.failed) return false;
    if (turn.last_end > std::max(done.issued, item.issued) && turn.last &&
        graph_.at(turn.last).stream != op.stream && turn.last_end > clock.now() - kTolerated) {
      done.reason = run::BoundReason::communicator;
      done.bound_by = turn.last;
    }
  }
  if (cost.lead > 0) clock.sleep_until(clock.now() + cost.lead);
  const Seat seat = seats_[op.communicator.row()];
  done.start = clock.now();
  const auto met =
      seat.room->meet({seat.member, item.op, item.ticket, &cost, shared_.job.speed(op.cost),
                       item.accesses, seed_of(item.op.row(), rank_, item.step)});
  if (!met) return false;
  done.transfer = std::max(met->transfer, done.start);
  if (met->last != rank_) {
    done.reason = run::BoundReason::rendezvous;
    done.bound_by = met->last_op;
    done.bound_rank = met->last;
  }
  {
    const std::lock_guard lock(shared_.mutex);
    if (cost.message_bytes > 0)
      ++(met->is_bound ? shared_.report.checked_collectives : shared_.report.unchecked_collectives);
    shared_.report.checked_bytes += met->checked_bytes;
  }
  if (!met->wrong.empty()) report_wrong(item, met->wrong);
  count_overrun(met->overrun);
  done.end = clock.now();
  const std::lock_guard lock(turn.mutex);
  ++turn.ended;
  turn.last_end = done.end;
  turn.last = item.op;
  turn.changed.notify_all();
  return true;
}

void HostDevice::report_wrong(const Item& item, const std::string& wrong) {
  shared_.job.events->failed(Error{{},
                                   fmt::format("{}: wrong numbers: {}",
                                               op_key(graph_, item.op, shared_.job.ranks[rank_],
                                                      item.step > 0 ? item.step - 1 : 0),
                                               wrong),
                                   Fault::work});
}

void HostDevice::count_overrun(Ns overrun) {
  if (overrun <= kTolerated) return;
  const std::lock_guard lock(shared_.mutex);
  ++shared_.report.overruns;
  shared_.report.longest_overrun = std::max(shared_.report.longest_overrun, overrun);
}

}  // namespace foregather::runtime
