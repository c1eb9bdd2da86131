#include "runtime/cuda/cuda_device.cuh"

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/ir/op_key.h"
#include "runtime/cuda/ranges.cuh"

namespace foregather::runtime::cuda {

CudaDevice::CudaDevice(CudaJob& shared, std::uint32_t rank, Gpu& gpu, std::vector<Seat> seats,
                       std::vector<WorkPlan> plans)
    : shared_(shared),
      graph_(*shared.job.graph),
      program_(graph_.at(graph_.classes[shared.job.class_of[rank]].program)),
      rank_(rank),
      gpu_(gpu),
      seats_(std::move(seats)),
      staged_(seats_.size()),
      plans_(std::move(plans)) {
  for (std::size_t i = 0; i < seats_.size(); ++i) turns_.push_back(std::make_unique<Turn>());
}

Result<std::unique_ptr<CudaDevice>> CudaDevice::create(CudaJob& shared, std::uint32_t rank,
                                                       Gpu& gpu, bool is_shared, Bytes capacity,
                                                       std::uint64_t places,
                                                       std::vector<Seat> seats,
                                                       std::vector<WorkPlan> plans,
                                                       const Scratch& scratch) {
  std::unique_ptr<CudaDevice> device(
      new CudaDevice(shared, rank, gpu, std::move(seats), std::move(plans)));
  if (const Status ready = device->prepare(is_shared, capacity, places, scratch); !ready)
    return tl::unexpected(ready.error());
  return device;
}

Status CudaDevice::prepare(bool is_shared, Bytes capacity, std::uint64_t places,
                           const Scratch& scratch) {
  std::vector<bool> has_products(program_.streams.size());
  for (std::uint32_t i = 0; i < program_.ops.count; ++i)
    if (plans_[i].way == WorkPlan::Way::product)
      has_products[graph_.ops[program_.ops.first + i].stream.row()] = true;
  for (std::size_t s = 0; s < program_.streams.size(); ++s) {
    queues_.push_back(std::make_unique<Queue>());
    if (Status ready =
            prepare_queue(*queues_.back(), program_.streams[s], has_products[s], places, scratch);
        !ready)
      return ready;
  }
  memory_ = std::make_unique<GpuMemory>(gpu_, capacity, is_shared, [this] {
    for (std::size_t s = 0; s < queues_.size(); ++s) synchronize(mark(StreamId(s)));
  });
  return prepare_collectives();
}

Status CudaDevice::prepare_queue(Queue& queue, const Stream& stream, bool has_products,
                                 std::uint64_t places, const Scratch& scratch) {
  Calls calls;
  int least = 0, greatest = 0;
  FOREGATHER_CUDA(calls, gpu_.use());
  FOREGATHER_CUDA(calls, cudaDeviceGetStreamPriorityRange(&least, &greatest));
  FOREGATHER_CUDA(calls,
                  cudaStreamCreateWithPriority(&queue.stream, cudaStreamNonBlocking,
                                               std::clamp(stream.priority, greatest, least)));
  queue.ring.resize(places);
  queue.ended.resize(places);
  for (Item& item : queue.ring) {
    FOREGATHER_CUDA(calls, cudaEventCreate(&item.start));
    FOREGATHER_CUDA(calls, cudaEventCreate(&item.end));
  }
  const auto wrong = gpu_.allocate(static_cast<Bytes>(places * sizeof(std::int64_t)), true);
  if (!wrong) return tl::unexpected(wrong.error());
  queue.wrong = static_cast<std::int64_t*>(*wrong);
  if (has_products) {
    const auto workspace = gpu_.allocate(Products::kWorkspace);
    if (!workspace) return tl::unexpected(workspace.error());
    queue.workspace = *workspace;
  }
  queue.worker = std::make_unique<Worker>(gpu_, scratch);
  return calls.status();
}

Status CudaDevice::prepare_collectives() {
  constexpr Bytes kLeast = 256;  // barriers send something
  collectives_.resize(program_.ops.count);
  std::vector<std::array<Bytes, 2>> needed(seats_.size());
  for (std::uint32_t i = 0; i < program_.ops.count; ++i) {
    const Op& op = graph_.ops[program_.ops.first + i];
    if (!op.communicator) continue;
    const Seat& seat = seats_[op.communicator.row()];
    const Members& members = seat.room->members();
    CollectivePlan& plan = collectives_[i];
    plan = plan_collective(graph_, op, members.group_size, members.positions[seat.member]);
    auto& [in, out] = needed[op.communicator.row()];
    in = std::max({in, kLeast, plan.in.kind == Buffer::Kind::access ? 0 : plan.sent});
    out = std::max({out, kLeast, plan.out.kind == Buffer::Kind::access ? 0 : plan.received});
  }
  Calls calls;
  for (std::size_t c = 0; c < needed.size(); ++c) {
    if (needed[c][0] == 0) continue;
    for (const std::size_t side : {0U, 1U}) {
      const auto memory = gpu_.allocate(needed[c][side]);
      if (!memory) return tl::unexpected(memory.error());
      (side == 0 ? staged_[c].in : staged_[c].out) = static_cast<std::byte*>(*memory);
      FOREGATHER_CUDA(
          calls, cuda::fill(gpu_.own_stream(), *memory, needed[c][side], DType::bf16, rank_ + 1));
    }
  }
  return calls.status();
}

// After a failure, what still waits on the GPU is let go, as often as it takes.
CudaDevice::~CudaDevice() {
  (void)gpu_.use();
  for (int i = 0; i < 10'000 && shared_.failed; ++i) {
    const bool is_busy = std::ranges::any_of(queues_, [](const auto& queue) {
      return queue->stream != nullptr && cudaStreamQuery(queue->stream) == cudaErrorNotReady;
    });
    (void)cudaGetLastError();
    if (!is_busy) break;
    for (const Seat& seat : seats_)
      if (seat.room != nullptr) seat.room->abandon();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (const auto& queue : queues_) {
    if (queue->stream != nullptr && !shared_.failed) cudaStreamSynchronize(queue->stream);
    for (const Item& item : queue->ring) {
      if (item.start != nullptr) cudaEventDestroy(item.start);
      if (item.end != nullptr) cudaEventDestroy(item.end);
    }
    if (queue->stream != nullptr) cudaStreamDestroy(queue->stream);
  }
}

void CudaDevice::wake() {
  for (const auto& queue : queues_) {
    const std::lock_guard lock(queue->mutex);
    queue->reported.notify_all();
  }
}

// ---- What host threads enqueue ------------------------------------------------------------------

CudaDevice::Item* CudaDevice::place(Queue& queue) {
  std::unique_lock lock(queue.mutex);
  queue.reported.wait(
      lock, [&] { return queue.tail - queue.head < queue.ring.size() || shared_.failed; });
  if (shared_.failed) return nullptr;
  const std::size_t at = queue.tail % queue.ring.size();
  Item& item = queue.ring[at];
  item.op = {};
  item.marks.clear();
  item.checked_bytes = 0;
  item.has_arrived = false;
  queue.wrong[at] = -1;
  return &item;
}

Mark CudaDevice::publish(StreamId stream) {
  Queue& queue = *queues_[stream.row()];
  const std::lock_guard lock(queue.mutex);
  return {stream, ++queue.tail};
}

// An item keeps its event until it is reported, which this keeps from happening meanwhile.
void CudaDevice::order(Calls& calls, cudaStream_t stream, Mark mark) {
  Queue& awaited = *queues_[mark.stream.row()];
  const std::lock_guard lock(awaited.mutex);
  if (mark.position > awaited.head)
    FOREGATHER_CUDA(
        calls, cudaStreamWaitEvent(stream,
                                   awaited.ring[(mark.position - 1) % awaited.ring.size()].end, 0));
}

void CudaDevice::fill(StreamId stream, std::byte* to, Bytes bytes, DType type, std::uint64_t seed) {
  Queue& queue = *queues_[stream.row()];
  Item* const item = place(queue);
  if (item == nullptr) return;
  Calls calls;
  FOREGATHER_CUDA(calls, gpu_.use());
  FOREGATHER_CUDA(calls, cuda::fill(queue.stream, to, bytes, type, seed));
  FOREGATHER_CUDA(calls, cudaEventRecord(item->end, queue.stream));
  if (!calls.is_ok()) return shared_.job.events->failed(calls.status().error());
  publish(stream);
}

void CudaDevice::wait(StreamId stream, Mark mark) {
  Queue& queue = *queues_[stream.row()];
  Item* const item = place(queue);
  if (item == nullptr) return;
  Calls calls;
  FOREGATHER_CUDA(calls, gpu_.use());
  if (mark.position > 0) {
    item->marks.assign(1, mark);
    order(calls, queue.stream, mark);
  }
  FOREGATHER_CUDA(calls, cudaEventRecord(item->end, queue.stream));
  if (!calls.is_ok()) return shared_.job.events->failed(calls.status().error());
  publish(stream);
}

Mark CudaDevice::launch(const Launch& launch) {
  const Op& op = graph_.at(launch.op);
  const std::uint32_t row = launch.op.row() - program_.ops.first;
  Queue& queue = *queues_[op.stream.row()];
  Turn* const turn = op.communicator ? turns_[op.communicator.row()].get() : nullptr;
  std::unique_lock<std::mutex> in_turn;
  if (turn != nullptr) in_turn = std::unique_lock(turn->mutex);
  Item* const item = place(queue);
  if (item == nullptr) return {op.stream, 0};
  item->op = launch.op;
  item->step = launch.step;
  item->issued = launch.issued;
  item->call = launch.call;
  item->ticket = turn == nullptr ? 0 : turn->launched++;

  Calls calls;
  FOREGATHER_CUDA(calls, gpu_.use());
  for (const Mark& dep : launch.deps)
    if (dep.position > 0) {
      item->marks.push_back(dep);
      order(calls, queue.stream, dep);
    }
  if (turn != nullptr && turn->last.position > 0 && turn->last.stream != op.stream)
    order(calls, queue.stream, turn->last);
  {
    const RangeScope range(has_range_listener() ? key_of(launch.op, launch.step) : std::string());
    FOREGATHER_CUDA(calls, cudaEventRecord(item->start, queue.stream));
    const bool checks = launch.step <= 1;
    std::int64_t* const wrong = checks ? &queue.wrong[item - queue.ring.data()] : nullptr;
    if (turn != nullptr) {
      if (collect(calls, op, launch, queue, item->ticket))
        item->checked_bytes = collectives_[row].received;
    } else {
      const std::uint64_t seed = (std::uint64_t{launch.op.row()} << 20U) + launch.step;
      item->checked_bytes =
          queue.worker->perform(calls, graph_.at(op.cost), plans_[row], launch.accesses,
                                {queue.stream, queue.workspace, wrong, seed});
    }
    FOREGATHER_CUDA(calls, cudaEventRecord(item->end, queue.stream));
  }
  if (!calls.is_ok()) {
    fail_op(launch.op, launch.step, calls.status().error());
    return {op.stream, 0};
  }
  const Mark mark = publish(op.stream);
  if (turn != nullptr) turn->last = mark;
  return mark;
}

// True if the result will be checked.
bool CudaDevice::collect(Calls& calls, const Op& op, const Launch& launch, Queue& queue,
                         std::uint64_t ticket) {
  const CollectivePlan& plan = collectives_[launch.op.row() - program_.ops.first];
  const Seat& seat = seats_[op.communicator.row()];
  const Staged& staged = staged_[op.communicator.row()];
  const Cost& cost = graph_.at(op.cost);
  const auto move = [&](std::span<const BoundAccess> from, bool from_written,
                        std::span<const BoundAccess> to, Bytes bytes) {
    std::vector<Pieces> pieces;
    pieces_of(from, from_written, to, bytes / size_of(cost.dtype), pieces);
    for (const Pieces& group : pieces) FOREGATHER_CUDA(calls, cuda::move(queue.stream, group));
  };
  const bool is_direct_in = plan.in.kind == Buffer::Kind::access;
  const bool is_direct_out = plan.out.kind == Buffer::Kind::access;
  Room::Part part{cost.kind,
                  cost.dtype,
                  &plan,
                  seat.member,
                  ticket,
                  is_direct_in ? launch.accesses[plan.in.access].data : staged.in,
                  is_direct_out ? launch.accesses[plan.out.access].data : staged.out,
                  nullptr};
  if (launch.step <= 1) part.wrong = &queue.wrong[queue.tail % queue.ring.size()];
  if (plan.in.kind == Buffer::Kind::staged) {
    const BoundAccess to{{}, Access::write, cost.dtype, staged.in, plan.sent};
    move(launch.accesses, plan.in_is_written, {&to, 1}, plan.sent);
  }
  const bool is_checked = seat.room->enqueue(calls, part, queue.stream);
  const bool receives = cost.kind != OpKind::reduce || seat.member == 0;
  if (plan.out.kind == Buffer::Kind::staged && receives) {
    const BoundAccess from{{}, Access::read, cost.dtype, staged.out, plan.received};
    move({&from, 1}, false, launch.accesses, plan.received);
  }
  return is_checked;
}

Mark CudaDevice::mark(StreamId stream) {
  Queue& queue = *queues_[stream.row()];
  const std::lock_guard lock(queue.mutex);
  return {stream, queue.tail};
}

bool CudaDevice::has_happened(Mark mark) {
  Queue& queue = *queues_[mark.stream.row()];
  const std::lock_guard lock(queue.mutex);
  if (mark.position <= queue.head) return true;
  const cudaError_t code = cudaEventQuery(queue.ring[(mark.position - 1) % queue.ring.size()].end);
  if (code != cudaSuccess) (void)cudaGetLastError();  // the thread that reports says what it is
  return code == cudaSuccess;
}

// Awake for a moment, then in short naps: a wait that the driver performs cannot be broken off.
void CudaDevice::synchronize(Mark mark) {
  constexpr int kAwake = 2000;
  for (int i = 0; !shared_.failed && !has_happened(mark); ++i)
    if (i < kAwake)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(20));
}

std::string CudaDevice::key_of(OpId op, std::uint32_t step) const {
  return op_key(graph_, op, shared_.job.ranks[rank_], step > 0 ? step - 1 : 0);
}

void CudaDevice::fail_op(OpId op, std::uint32_t step, const Error& error) {
  shared_.job.events->failed(
      Error{{}, fmt::format("{}: {}", key_of(op, step), error.message), Fault::work});
}

}  // namespace foregather::runtime::cuda
