// What the thread that reports does.
#include <algorithm>

#include "core/ir/op_key.h"
#include "runtime/cuda/cuda_device.cuh"

namespace foregather::runtime::cuda {

bool CudaDevice::is_idle() {
  return std::ranges::all_of(queues_, [](const auto& queue) {
    const std::lock_guard lock(queue->mutex);
    return queue->head == queue->tail;
  });
}

std::string CudaDevice::awaited() {
  std::string keys;
  for (const auto& queue : queues_) {
    const std::lock_guard lock(queue->mutex);
    for (std::uint64_t at = queue->head; at < queue->tail; ++at) {
      const Item& item = queue->ring[at % queue->ring.size()];
      if (!item.op) continue;
      keys += (keys.empty() ? "" : ", ") + key_of(item.op, item.step);
      break;
    }
  }
  return keys;
}

bool CudaDevice::report() {
  bool any = false;
  for (const auto& queue : queues_)
    while (!shared_.failed && report_next(*queue)) any = true;
  return any;
}

template <class T>
std::optional<T> CudaDevice::value_of(Result<T> result) {
  if (result) return *result;
  shared_.job.events->failed(result.error());
  return std::nullopt;
}

bool CudaDevice::has_ended(cudaEvent_t event) {
  const cudaError_t code = cudaEventQuery(event);
  if (code == cudaSuccess) return true;
  (void)cudaGetLastError();
  if (code != cudaErrorNotReady)
    shared_.job.events->failed(
        Error{{},
              fmt::format("rank {}: the GPU failed: {}", shared_.job.ranks[rank_],
                          cudaGetErrorString(code)),
              Fault::work});
  return false;
}

bool CudaDevice::report_next(Queue& queue) {
  {
    const std::lock_guard lock(queue.mutex);
    if (queue.head == queue.tail) return false;
  }
  const std::size_t at = queue.head % queue.ring.size();
  Item& item = queue.ring[at];
  const bool is_collective = item.op && graph_.at(item.op).communicator;
  if (is_collective && !item.has_arrived && !arrive(item)) return false;
  if (!has_ended(item.end)) return false;
  Bound bound = queue.before;
  if (!bound_of(item, bound)) return false;
  if (item.op) {
    const auto done = done_of(item, bound);
    if (!done) return false;
    note_checks(queue, item);
    shared_.job.events->done(*done);
    bound = {done->end, run::BoundReason::stream, item.op};
  }
  queue.before = queue.ended[at] = bound;
  const std::lock_guard lock(queue.mutex);
  ++queue.head;
  queue.reported.notify_all();
  return true;
}

bool CudaDevice::arrive(Item& item) {
  if (!has_ended(item.start)) return false;
  const auto time = value_of(gpu_.time_of(item.start));
  if (!time) return false;
  const std::uint32_t communicator = graph_.at(item.op).communicator.row();
  if (item.ticket > turns_[communicator]->ended + 1) return false;
  const Seat& seat = seats_[communicator];
  seat.room->arrived(seat.member, item.ticket, item.op, *time);
  item.has_arrived = true;
  return true;
}

// Raises `bound` to what the item waited for. False: that is to be reported first.
bool CudaDevice::bound_of(const Item& item, Bound& bound) {
  for (const Mark& mark : item.marks) {
    const Queue& awaited = *queues_[mark.stream.row()];
    if (awaited.head < mark.position) return false;
    if (awaited.head - mark.position >= awaited.ended.size()) continue;  // long ago
    const Bound& ended = awaited.ended[(mark.position - 1) % awaited.ended.size()];
    if (ended.time > bound.time) bound = {ended.time, run::BoundReason::event, ended.by};
  }
  return true;
}

// Nothing: not all is known yet. Times of two clocks may disagree by some microseconds: an op does
// not start before it was issued, nor end before it started.
std::optional<OpDone> CudaDevice::done_of(const Item& item, const Bound& bound) {
  const Op& op = graph_.at(item.op);
  const auto start = value_of(gpu_.time_of(item.start)), end = value_of(gpu_.time_of(item.end));
  if (!start || !end) return std::nullopt;
  OpDone done{rank_, item.op, item.step,    item.call, item.issued, 0,
              0,     0,       bound.reason, bound.by,  rank_};
  done.start = done.transfer = std::max(*start, item.issued);
  done.end = std::max(*end, done.start);
  if (item.issued > bound.time) {
    done.reason = run::BoundReason::host;
    done.bound_by = {};
  }
  if (!op.communicator) return done;

  Turn& turn = *turns_[op.communicator.row()];
  if (turn.ended != item.ticket) return std::nullopt;
  const Seat& seat = seats_[op.communicator.row()];
  const auto arrivals = seat.room->arrivals(item.ticket);
  if (!arrivals) return std::nullopt;
  if (turn.last_op && graph_.at(turn.last_op).stream != op.stream &&
      turn.last_end > std::max(bound.time, item.issued)) {
    done.reason = run::BoundReason::communicator;
    done.bound_by = turn.last_op;
  }
  done.transfer = std::clamp(arrivals->last, done.start, done.end);
  if (arrivals->member != seat.member) {
    done.reason = run::BoundReason::rendezvous;
    done.bound_by = arrivals->op;
    done.bound_rank = seat.room->members().ranks[arrivals->member];
  }
  ++turn.ended;
  turn.last_end = done.end;
  turn.last_op = item.op;
  return done;
}

void CudaDevice::note_checks(const Queue& queue, const Item& item) {
  const Op& op = graph_.at(item.op);
  const std::lock_guard lock(shared_.mutex);
  if (op.communicator) {
    const CollectivePlan& plan = collectives_[item.op.row() - program_.ops.first];
    if (!plan.is_bound && graph_.at(op.cost).message_bytes > 0)
      ++shared_.report.unchecked_collectives;
  }
  if (item.checked_bytes == 0) return;
  ++(op.communicator ? shared_.report.checked_collectives : shared_.report.checked_casts);
  shared_.report.checked_bytes += item.checked_bytes;
  const std::int64_t wrong = queue.wrong[&item - queue.ring.data()];
  if (wrong >= 0)
    fail_op(item.op, item.step,
            Error{{}, fmt::format("wrong numbers: element {}", wrong), Fault::work});
}

}  // namespace foregather::runtime::cuda
