#include "runtime/cuda/nccl.cuh"

namespace foregather::runtime::cuda {
namespace {

constexpr int kOldest = 21900;  // 2.19.0
constexpr int kSum = 0;         // ncclSum

// ncclDataType_t.
int nccl_type(DType type) {
  switch (type) {
    case DType::i32: return 2;
    case DType::i64: return 4;
    case DType::f16: return 6;
    case DType::f32: return 7;
    case DType::f64: return 8;
    case DType::bf16: return 9;
    case DType::f8e4m3: return 10;
    case DType::f8e5m2: return 11;
    default: return 1;  // bytes
  }
}

}  // namespace

std::unique_ptr<Nccl> Nccl::open(std::string& why) {
  auto nccl = std::make_unique<Nccl>();
  Entries& entries = nccl->nccl_;
  entries.library = open_library({"libnccl.so.2"}, {"nccl"});
  const Library& library = entries.library;
  if (library.handle == nullptr) {
    why = "libnccl.so.2 cannot be opened";
    return nullptr;
  }
  const bool is_whole =
      library.find("ncclGetVersion", entries.version) &&
      library.find("ncclGetUniqueId", entries.make_id) &&
      library.find("ncclCommInitRank", entries.join) &&
      library.find("ncclCommDestroy", entries.destroy) &&
      library.find("ncclCommAbort", entries.abort) &&
      library.find("ncclCommGetAsyncError", entries.async_error) &&
      library.find("ncclGetErrorString", entries.text) &&
      library.find("ncclGetLastError", entries.last_error) &&
      library.find("ncclGroupStart", entries.begin) && library.find("ncclGroupEnd", entries.end) &&
      library.find("ncclAllGather", entries.all_gather) &&
      library.find("ncclReduceScatter", entries.reduce_scatter) &&
      library.find("ncclAllReduce", entries.all_reduce) &&
      library.find("ncclBroadcast", entries.broadcast) &&
      library.find("ncclReduce", entries.reduce) && library.find("ncclSend", entries.send) &&
      library.find("ncclRecv", entries.receive);
  int version = 0;
  if (!is_whole || entries.version(&version) != 0 || version < kOldest) {
    why = fmt::format("{} is not NCCL 2.19 or later", library.path);
    return nullptr;
  }
  nccl->version_ = version;
  nccl->name_ = fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  return nccl;
}

Status Nccl::status_of(Code code, const char* what) const {
  if (code == 0) return {};
  const char* const last = nccl_.last_error(nullptr);
  return fail_work("", "NCCL: {} in {}{}{}", nccl_.text(code), what,
                   last == nullptr || *last == '\0' ? "" : ": ", last == nullptr ? "" : last);
}

Result<NcclId> Nccl::make_id() const {
  NcclId id{};
  if (const Status made = status_of(nccl_.make_id(&id), "ncclGetUniqueId"); !made)
    return tl::unexpected(made.error());
  return id;
}

Status Nccl::begin_group() const { return status_of(nccl_.begin(), "ncclGroupStart"); }
Status Nccl::end_group() const { return status_of(nccl_.end(), "ncclGroupEnd"); }

Status Nccl::join(NcclCommunicator*& communicator, int ranks, const NcclId& id, int rank) const {
  return status_of(nccl_.join(&communicator, ranks, id, rank), "ncclCommInitRank");
}

void Nccl::abort(NcclCommunicator* communicator) const { (void)nccl_.abort(communicator); }
void Nccl::leave(NcclCommunicator* communicator) const { (void)nccl_.destroy(communicator); }

Status Nccl::check(NcclCommunicator* communicator) const {
  constexpr Code kInProgress = 7;
  Code error = 0;
  const Status asked = status_of(nccl_.async_error(communicator, &error), "ncclCommGetAsyncError");
  return !asked || error == 0 || error == kInProgress ? asked : status_of(error, "a collective");
}

Status Nccl::enqueue(OpKind kind, const void* in, void* out, std::int64_t elements, DType type,
                     NcclCommunicator* communicator, int rank, int ranks,
                     cudaStream_t stream) const {
  const auto count = static_cast<std::size_t>(elements);
  const int nccl = nccl_type(type);
  switch (kind) {
    case OpKind::all_gather:
      return status_of(nccl_.all_gather(in, out, count, nccl, communicator, stream),
                       "ncclAllGather");
    case OpKind::reduce_scatter:
      return status_of(nccl_.reduce_scatter(in, out, count, nccl, kSum, communicator, stream),
                       "ncclReduceScatter");
    case OpKind::all_reduce:
      return status_of(nccl_.all_reduce(in, out, count, nccl, kSum, communicator, stream),
                       "ncclAllReduce");
    case OpKind::broadcast:
      return status_of(nccl_.broadcast(in, out, count, nccl, 0, communicator, stream),
                       "ncclBroadcast");
    case OpKind::reduce:
      return status_of(nccl_.reduce(in, out, count, nccl, kSum, 0, communicator, stream),
                       "ncclReduce");
    default: break;
  }
  // Each rank to each, or to the next and from the one before.
  Status status = begin_group();
  const std::int64_t share = elements * size_of(type);
  const bool is_all = kind == OpKind::all_to_all;
  for (int step = is_all ? 0 : 1; step < (is_all ? ranks : 2) && status; ++step) {
    const int to = (rank + step) % ranks, from = (rank + ranks - step % ranks) % ranks;
    const auto* const sent = static_cast<const char*>(in) + (is_all ? share * to : 0);
    auto* const received = static_cast<char*>(out) + (is_all ? share * from : 0);
    status = status_of(nccl_.send(sent, count, nccl, to, communicator, stream), "ncclSend");
    if (status)
      status =
          status_of(nccl_.receive(received, count, nccl, from, communicator, stream), "ncclRecv");
  }
  const Status ended = end_group();
  return status ? ended : status;
}

}  // namespace foregather::runtime::cuda
