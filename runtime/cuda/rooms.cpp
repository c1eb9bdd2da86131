#include "runtime/cuda/rooms.cuh"

#include <algorithm>
#include <span>

namespace foregather::runtime::cuda {
namespace {

/// Processors that collectives of ranks on one GPU take: as many as NCCL's channels on NVLink.
constexpr int kProcessors = 24;

struct Side {
  std::int64_t elements = 0;
  std::uint32_t count = 0, first = 0;  ///< accesses
};

Side side_of(const Graph& graph, std::span<const AccessedTensor> accesses, bool reads) {
  Side side;
  for (std::uint32_t i = 0; i < accesses.size(); ++i) {
    const Tensor& tensor = graph.at(accesses[i].tensor);
    if ((accesses[i].mode == Access::read) != reads || graph.at(tensor.storage).on_host) continue;
    if (side.count++ == 0) side.first = i;
    side.elements += accesses[i].bytes / size_of(tensor.dtype);
  }
  return side;
}

// In whole elements, of every rank's share where there are shares.
Bytes whole_message(const Cost& cost, std::uint32_t ranks) {
  const bool has_shares = cost.kind == OpKind::all_gather || cost.kind == OpKind::reduce_scatter ||
                          cost.kind == OpKind::all_to_all;
  const Bytes unit = size_of(cost.dtype) * (has_shares ? ranks : 1);
  return cost.kind == OpKind::barrier ? 0 : cost.message_bytes / unit * unit;
}

}  // namespace

CollectivePlan plan_collective(const Graph& graph, const Op& op, std::uint32_t group_size,
                               std::uint32_t position) {
  const Cost& cost = graph.at(op.cost);
  const auto accesses = graph.accesses_of(op);
  const Bytes message = whole_message(cost, group_size), share = message / group_size;
  CollectivePlan plan;
  plan.sent = cost.kind == OpKind::all_gather ? share : message;
  plan.received = cost.kind == OpKind::reduce_scatter ? share : message;
  const bool has_shares = cost.kind == OpKind::all_gather || cost.kind == OpKind::reduce_scatter ||
                          cost.kind == OpKind::all_to_all;
  plan.elements = (has_shares ? share : message) / size_of(cost.dtype);
  const std::int64_t sent = plan.sent / size_of(cost.dtype);
  const std::int64_t received = plan.received / size_of(cost.dtype);
  const Side reads = side_of(graph, accesses, true), writes = side_of(graph, accesses, false);
  const auto type_of = [&](std::uint32_t access) {
    return graph.at(accesses[access].tensor).dtype;
  };
  const auto buffer_of = [&](const Side& side, std::int64_t elements) {
    Buffer buffer;
    if (side.count == 0) return buffer;
    const bool is_direct =
        side.count == 1 && side.elements == elements && type_of(side.first) == cost.dtype;
    buffer.kind = is_direct ? Buffer::Kind::access : Buffer::Kind::staged;
    buffer.access = side.first;
    return buffer;
  };
  if (sent > 0 && reads.elements == sent) {
    plan.in = buffer_of(reads, sent);
  } else if (sent > 0 && reads.count == 0 && writes.elements == sent &&
             cost.kind != OpKind::send_recv) {
    plan.in = {Buffer::Kind::staged, writes.first};
    plan.in_is_written = true;
  }
  plan.out = buffer_of(writes, received);
  plan.is_bound = writes.elements == received &&
                  (plan.in.kind != Buffer::Kind::own || cost.kind == OpKind::send_recv);
  if (plan.in.kind != Buffer::Kind::access) return plan;
  const auto storage_of = [&](std::uint32_t access) {
    return graph.at(accesses[access].tensor).storage;
  };
  const auto offset_of = [&](std::uint32_t access) {
    return graph.at(accesses[access].tensor).offset + accesses[access].offset;
  };
  for (std::uint32_t i = 0; i < accesses.size(); ++i) {
    if (accesses[i].mode == Access::read || storage_of(i) != storage_of(plan.in.access)) continue;
    const bool is_in_place = cost.kind == OpKind::all_gather &&
                             plan.out.kind == Buffer::Kind::access &&
                             offset_of(plan.in.access) == offset_of(i) + share * position;
    if (!is_in_place) plan.in.kind = Buffer::Kind::staged;
  }
  return plan;
}

Result<std::unique_ptr<Room>> Room::on_one_gpu(Members members, Gpu& gpu) {
  std::unique_ptr<Room> room(new Room(std::move(members)));
  const std::size_t count = room->members_.ranks.size();
  const std::size_t bytes = count * (sizeof(void*) + 2 * sizeof(std::uint32_t));
  const auto memory = gpu.allocate(static_cast<Bytes>(bytes));
  if (!memory) return tl::unexpected(memory.error());
  Calls calls;
  if (!FOREGATHER_CUDA(calls, cudaMemset(*memory, 0, bytes)))
    return tl::unexpected(calls.status().error());
  room->present_ = static_cast<std::uint32_t>(count);
  room->gpu_ = &gpu;
  room->table_ = static_cast<const void**>(*memory);
  room->arrived_ = reinterpret_cast<std::uint32_t*>(room->table_ + count);
  room->departed_ = room->arrived_ + count;
  return room;
}

Room::Room(Members members, const Nccl& nccl, std::vector<NcclCommunicator*> communicators)
    : members_(std::move(members)), nccl_(&nccl), communicators_(std::move(communicators)) {
  present_ = static_cast<std::uint32_t>(
      std::ranges::count_if(communicators_, [](const auto* each) { return each != nullptr; }));
}

Room::~Room() {
  if (is_aborted_) return;
  for (NcclCommunicator* const communicator : communicators_)
    if (communicator != nullptr) nccl_->leave(communicator);
}

bool Room::enqueue(Calls& calls, const Part& part, cudaStream_t stream) {
  if (!calls.is_ok()) return false;
  if (nccl_ == nullptr) return enqueue_pull(calls, part, stream);
  if (is_aborted_) return false;
  if (part.kind == OpKind::barrier) {  // the smallest that waits for all
    calls.note(nccl_->enqueue(OpKind::all_reduce, part.in, part.out, 1, DType::f32,
                              communicators_[part.member], static_cast<int>(part.member),
                              static_cast<int>(communicators_.size()), stream));
    return false;
  }
  if (part.plan->elements > 0)
    calls.note(nccl_->enqueue(part.kind, part.in, part.out, part.plan->elements, part.type,
                              communicators_[part.member], static_cast<int>(part.member),
                              static_cast<int>(communicators_.size()), stream));
  return false;
}

bool Room::enqueue_pull(Calls& calls, const Part& part, cudaStream_t stream) {
  std::array<CUstreamBatchMemOpParams, 1> publish{};
  publish[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
  publish[0].writeValue.address = reinterpret_cast<CUdeviceptr>(table_ + part.member);
  publish[0].writeValue.value64 = reinterpret_cast<std::uintptr_t>(part.in);
  FOREGATHER_CUDA(calls, gpu_->driver().batch_memory_ops(stream, 1, publish.data(), 0));
  signal_and_wait(calls, arrived_, part, stream);
  Pull pull;
  pull.kind = part.kind;
  pull.type = part.type;
  pull.in = table_;
  pull.out = part.out;
  pull.members = static_cast<int>(members_.ranks.size());
  pull.me = static_cast<int>(part.member);
  for (std::size_t m = 0; m < members_.positions.size(); ++m)
    pull.position[m] = static_cast<std::uint16_t>(members_.positions[m]);
  pull.elements = part.plan->elements;
  pull.processors = kProcessors;
  const bool has_work = part.kind != OpKind::barrier && pull.elements > 0;
  if (has_work) FOREGATHER_CUDA(calls, cuda::pull(stream, pull));
  const bool is_checked = has_work && part.wrong != nullptr;
  if (is_checked) FOREGATHER_CUDA(calls, cuda::check(stream, pull, part.wrong));
  signal_and_wait(calls, departed_, part, stream);
  return is_checked;
}

// A written word is seen after all that the stream did before. Waiting compares cyclically.
void Room::signal_and_wait(Calls& calls, const std::uint32_t* flags, const Part& part,
                           cudaStream_t stream) const {
  std::array<CUstreamBatchMemOpParams, kMostMembers> words{};
  const auto value = static_cast<std::uint32_t>(part.ticket + 1);
  words[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  words[0].writeValue.address = reinterpret_cast<CUdeviceptr>(flags + part.member);
  words[0].writeValue.value = value;
  words[0].writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
  unsigned count = 1;
  for (std::uint32_t m = 0; m < members_.ranks.size(); ++m) {
    if (m == part.member) continue;
    auto& word = words[count++];
    word.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    word.waitValue.address = reinterpret_cast<CUdeviceptr>(flags + m);
    word.waitValue.value = value;
    word.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
  }
  FOREGATHER_CUDA(calls, gpu_->driver().batch_memory_ops(stream, count, words.data(), 0));
}

void Room::arrived(std::uint32_t member, std::uint64_t ticket, OpId op, Ns time) {
  Meeting& meeting = meetings_[ticket % 2];
  if (meeting.count == 0 || meeting.ticket != ticket) meeting = {ticket, 0, {}};
  if (meeting.count++ == 0 || time > meeting.arrivals.last) meeting.arrivals = {time, member, op};
}

std::optional<Room::Arrivals> Room::arrivals(std::uint64_t ticket) const {
  const Meeting& meeting = meetings_[ticket % 2];
  if (meeting.ticket != ticket || meeting.count < present_) return std::nullopt;
  return meeting.arrivals;
}

// The largest of what is compared: half way around from any ticket.
void Room::abandon() {
  if (nccl_ != nullptr) {
    if (is_aborted_.exchange(true)) return;
    for (NcclCommunicator* const communicator : communicators_)
      if (communicator != nullptr) nccl_->abort(communicator);
    return;
  }
  (void)gpu_->use();
  constexpr int kFar = 0x3f;
  (void)cudaMemsetAsync(arrived_, kFar, 2 * members_.ranks.size() * sizeof(std::uint32_t),
                        gpu_->own_stream());
}

Status Room::check() const {
  for (NcclCommunicator* const communicator : communicators_)
    if (communicator != nullptr && !is_aborted_)
      if (Status status = nccl_->check(communicator); !status) return status;
  return {};
}

}  // namespace foregather::runtime::cuda
