// The plug-in: GPUs of this process, one a rank with NCCL between them, or one that all ranks
// share.
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "runtime/cuda/cuda_device.cuh"
#include "runtime/cuda/known_numbers.cuh"
#include "runtime/rendezvous.h"

namespace foregather::runtime::cuda {
namespace {

/// Items that a stream of ranks that share a GPU holds: where the driver's own queue is full, one
/// rank's launch would hold up another's, for which it may wait.
constexpr std::uint64_t kPlacesShared = 96, kPlaces = 1024;
/// Of the free memory of a GPU, what is left for NCCL's buffers and the runtime's own.
constexpr Bytes kOutside = 2 * GiB;
constexpr Ns kPatience = 300 * kSecond;
/// Longer than any op takes: if nothing ends for so long, nothing will.
constexpr Ns kStall = 60 * kSecond;

class CudaBackend final : public Backend, private DeviceEvents {
 public:
  CudaBackend() {
    // Read by the driver when it makes a context. Kernels are loaded at once: loading one later
    // waits for all work, of which some may wait for the rank that loads.
    ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", std::to_string(kConnections).c_str(), 1);
    ::setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  }
  ~CudaBackend() override { stop(); }

  std::string_view name() const override { return "cuda"; }
  std::string description() const override { return description_; }
  Status ready() override;
  Result<std::vector<std::unique_ptr<Device>>> open(const Job& job) override;
  void abandon() override;
  void stop() override;
  BackendReport report() const override { return shared_.report; }

 private:
  using Seats = std::vector<std::vector<Seat>>;  ///< by local rank and communicator

  void done(const OpDone& op) override { outer_->done(op); }
  void failed(Error error) override {
    shared_.failed = true;
    outer_->failed(std::move(error));
  }
  Status check_job() const;
  Status choose_gpus();
  bool has_whole_groups() const;
  Status check_streams() const;
  Result<Seats> make_rooms();
  Result<std::unique_ptr<Room>> make_room(std::size_t index, Members members);
  Status exchange_ids(const std::vector<Members>& instances);
  Status add_devices(Seats seats, std::vector<std::unique_ptr<Device>>& devices);
  Gpu& gpu_of(std::uint32_t rank) { return is_shared_ ? *gpus_.front() : *gpus_[rank]; }
  void report_all();

  Driver driver_;
  int gpu_count_ = 0;
  std::string description_;
  CudaJob shared_;
  DeviceEvents* outer_ = nullptr;
  Ranks all_;  ///< of the schedule
  bool is_shared_ = false;
  std::vector<std::unique_ptr<Gpu>> gpus_;
  std::unique_ptr<Nccl> nccl_;
  std::string no_nccl_;
  std::vector<NcclId> ids_;  ///< by instance
  std::optional<Rendezvous> rendezvous_;
  std::vector<std::unique_ptr<Room>> rooms_;
  std::vector<CudaDevice*> devices_;
  std::atomic<bool> is_stopping_ = false;
  std::thread reporter_;
};

Status CudaBackend::ready() {
  const cudaError_t code = cudaGetDeviceCount(&gpu_count_);
  (void)cudaGetLastError();
  if (code == cudaErrorInsufficientDriver)
    return fail_work("--backend cuda",
                     "there is no NVIDIA driver, or it is older than CUDA {}: install one, or use "
                     "--backend host",
                     CUDART_VERSION / 1000);
  if (code != cudaSuccess || gpu_count_ == 0)
    return fail_work("--backend cuda",
                     "no GPU can be used ({}): see nvidia-smi and CUDA_VISIBLE_DEVICES, or use "
                     "--backend host",
                     cudaGetErrorString(code == cudaSuccess ? cudaErrorNoDevice : code));
  auto driver = Driver::find();
  if (!driver) return tl::unexpected(driver.error());
  driver_ = *driver;
  return {};
}

// What only prices can do.
Status CudaBackend::check_job() const {
  const Job& job = shared_.job;
  if (job.link_scale != 1 ||
      std::ranges::any_of(job.speeds, [](double speed) { return speed != 1; }))
    return fail(
        "the schedule asks for other speeds (--what-if scale, cluster.link_bandwidth_scale), "
        "which a GPU does not have: leave that out, or use --backend host");
  for (const RankClass& each : job.graph->classes)
    if (each.compute_scale_ppm != 1'000'000)
      return fail(
          "ranks of '{}' are slowed by a factor, which a GPU cannot be: leave that out, or "
          "use --backend host",
          job.graph->text(each.name));
  return {};
}

bool CudaBackend::has_whole_groups() const {
  const Graph& graph = *shared_.job.graph;
  return std::ranges::all_of(graph.communicators, [&](const Communicator& communicator) {
    const auto instances = instances_of(graph, communicator.group, all_.ranks);
    return std::ranges::all_of(instances, [](const Members& members) {
      return members.ranks.size() == members.group_size;
    });
  });
}

// A GPU a rank where there are as many and NCCL can serve them; else one for all ranks.
Status CudaBackend::choose_gpus() {
  const Job& job = shared_.job;
  const auto ranks = static_cast<int>(job.ranks.size());
  nccl_ = Nccl::open(no_nccl_);
  std::vector<int> chosen;
  if (job.process) {
    if (nccl_ == nullptr)
      return fail_work("",
                       "several processes need NCCL, and {}: install libnccl2, or run all ranks "
                       "in one process, without {}",
                       no_nccl_, job.process->launcher);
    if (!has_whole_groups())
      return fail("the schedule leaves ranks of its groups out: run it in one process");
    const auto local = static_cast<int>(job.process->local_rank);
    if (local >= gpu_count_ && gpu_count_ != 1)
      return fail_work("", "process {} of this machine has no GPU: there are {}", local,
                       gpu_count_);
    chosen.push_back(gpu_count_ == 1 ? 0 : local);
  } else {
    is_shared_ = nccl_ == nullptr || ranks > gpu_count_ || !has_whole_groups();
    for (int gpu = 0; gpu < (is_shared_ ? 1 : ranks); ++gpu) chosen.push_back(gpu);
  }
  for (const int index : chosen) {
    auto gpu = Gpu::open(index, driver_, *job.clock);
    if (!gpu) return tl::unexpected(gpu.error());
    gpus_.push_back(std::move(*gpu));
  }
  // What virtual ranks do with one buffer, the fronts of most GPUs can.
  int has_words = 1;
  if (is_shared_)
    driver_.attribute(&has_words, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, chosen[0]);
  if (has_words == 0)
    return fail_work("",
                     "{} cannot make streams wait for words of memory, which ranks that share "
                     "a GPU need",
                     gpus_.front()->name());
  return {};
}

Status CudaBackend::check_streams() const {
  const Graph& graph = *shared_.job.graph;
  std::size_t streams = 1;  // the GPU's own
  for (const std::uint32_t c : shared_.job.class_of)
    streams += graph.at(graph.classes[c].program).streams.size();
  if (is_shared_ && streams > kConnections)
    return fail(
        "{} ranks have {} streams together, and a GPU serves {} side by side: use fewer "
        "ranks on it",
        shared_.job.ranks.size(), streams - 1, kConnections - 1);
  return {};
}

Result<std::vector<std::unique_ptr<Device>>> CudaBackend::open(const Job& job) {
  shared_.job = job;
  outer_ = job.events;
  shared_.job.events = this;
  all_ = ranks_of(*job.graph);
  Status well = check_job();
  if (well) well = choose_gpus();
  if (well) well = check_streams();
  if (!well) return tl::unexpected(well.error());
  const Gpu& first = *gpus_.front();
  const bool lacks_nccl = nccl_ == nullptr && job.ranks.size() > 1;
  description_ = fmt::format(
      "{}, products by {}, {}", first.name(),
      first.products() != nullptr ? first.products()->name()
                                  : "own kernels, since " + first.no_products(),
      is_shared_ ? fmt::format(
                       "{} on one GPU, collectives by copies{}",
                       job.ranks.size() == 1 ? "1 rank" : fmt::format("{} ranks", job.ranks.size()),
                       lacks_nccl ? ", since " + no_nccl_ : "")
                 : nccl_->name());

  auto seats = make_rooms();
  if (!seats) return tl::unexpected(seats.error());
  std::vector<std::unique_ptr<Device>> devices;
  if (Status added = add_devices(std::move(*seats), devices); !added)
    return tl::unexpected(added.error());
  Calls calls;
  for (const auto& gpu : gpus_) {
    FOREGATHER_CUDA(calls, gpu->use());
    FOREGATHER_CUDA(calls, cudaDeviceSynchronize());
  }
  if (!calls.is_ok()) return tl::unexpected(calls.status().error());
  if (rendezvous_)
    if (const auto all_here = rendezvous_->exchange(""); !all_here)
      return tl::unexpected(all_here.error());
  reporter_ = std::thread([this] { report_all(); });
  return devices;
}

Result<CudaBackend::Seats> CudaBackend::make_rooms() {
  const Job& job = shared_.job;
  const Graph& graph = *job.graph;
  Seats seats(job.ranks.size(), std::vector<Seat>(graph.communicators.size()));
  std::vector<Members> instances;
  std::vector<std::uint32_t> communicator_of;
  for (std::uint32_t c = 0; c < graph.communicators.size(); ++c)
    for (Members& members : instances_of(graph, graph.communicators[c].group, all_.ranks)) {
      instances.push_back(std::move(members));
      communicator_of.push_back(c);
    }
  if (!is_shared_)
    if (const Status exchanged = exchange_ids(instances); !exchanged)
      return tl::unexpected(exchanged.error());
  for (std::size_t i = 0; i < instances.size(); ++i) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> here;  // local rank, member
    for (std::uint32_t m = 0; m < instances[i].ranks.size(); ++m) {
      const auto local = std::ranges::lower_bound(job.ranks, all_.ranks[instances[i].ranks[m]]);
      if (local != job.ranks.end() && *local == all_.ranks[instances[i].ranks[m]])
        here.emplace_back(static_cast<std::uint32_t>(local - job.ranks.begin()), m);
    }
    if (here.empty()) continue;
    auto room = make_room(i, std::move(instances[i]));
    if (!room) return tl::unexpected(room.error());
    for (const auto& [rank, member] : here) seats[rank][communicator_of[i]] = {room->get(), member};
    rooms_.push_back(std::move(*room));
  }
  for (std::uint32_t rank = 0; rank < seats.size(); ++rank) {
    const Range ops = graph.at(graph.classes[job.class_of[rank]].program).ops;
    for (std::uint32_t row = ops.first; row < ops.end(); ++row)
      if (const CommunicatorId id = graph.ops[row].communicator;
          id && seats[rank][id.row()].room == nullptr)
        return fail("rank {} meets others on communicator '{}', whose group has no place for it",
                    job.ranks[rank], graph.text(graph.at(id).name));
  }
  return seats;
}

// The process of an instance's first rank makes its id, and tells the others.
Status CudaBackend::exchange_ids(const std::vector<Members>& instances) {
  const Job& job = shared_.job;
  ids_.resize(instances.size());
  std::string own;
  for (std::size_t i = 0; i < instances.size(); ++i) {
    if (!std::ranges::binary_search(job.ranks, all_.ranks[instances[i].ranks.front()])) continue;
    const auto id = nccl_->make_id();
    if (!id) return tl::unexpected(id.error());
    ids_[i] = *id;
    own.append(reinterpret_cast<const char*>(&i), sizeof i).append(id->data(), id->size());
  }
  if (!job.process) return {};
  const std::string tag =
      fmt::format("{} ops, {} costs", job.graph->ops.size(), job.graph->costs.size());
  auto joined = Rendezvous::join(*job.process, tag, kPatience);
  if (!joined) return tl::unexpected(joined.error());
  rendezvous_.emplace(std::move(*joined));
  const auto all = rendezvous_->exchange(own);
  if (!all) return tl::unexpected(all.error());
  for (std::string_view rest : *all)
    while (rest.size() >= sizeof(std::size_t) + sizeof(NcclId)) {
      std::size_t i = 0;
      std::memcpy(&i, rest.data(), sizeof i);
      rest.remove_prefix(sizeof i);
      if (i < ids_.size()) std::memcpy(ids_[i].data(), rest.data(), sizeof(NcclId));
      rest.remove_prefix(sizeof(NcclId));
    }
  return {};
}

Result<std::unique_ptr<Room>> CudaBackend::make_room(std::size_t index, Members members) {
  if (is_shared_) {
    if (members.ranks.size() > kMostMembers)
      return fail("{} ranks meet on one GPU, expected at most {}", members.ranks.size(),
                  kMostMembers);
    return Room::on_one_gpu(std::move(members), *gpus_.front());
  }
  const Job& job = shared_.job;
  std::vector<NcclCommunicator*> communicators(members.ranks.size());
  std::vector<std::pair<std::uint32_t, Gpu*>> here;
  Calls calls;
  calls.note(nccl_->begin_group());
  for (std::uint32_t m = 0; m < members.ranks.size() && calls.is_ok(); ++m) {
    const std::uint32_t rank = all_.ranks[members.ranks[m]];
    const auto local = std::ranges::lower_bound(job.ranks, rank);
    if (local == job.ranks.end() || *local != rank) continue;
    here.emplace_back(m, &gpu_of(static_cast<std::uint32_t>(local - job.ranks.begin())));
    FOREGATHER_CUDA(calls, here.back().second->use());
    calls.note(nccl_->join(communicators[m], static_cast<int>(members.ranks.size()), ids_[index],
                           static_cast<int>(m)));
  }
  calls.note(nccl_->end_group());
  if (!calls.is_ok()) return tl::unexpected(calls.status().error());
  const std::size_t count = members.ranks.size();
  auto room = std::make_unique<Room>(std::move(members), *nccl_, communicators);
  if (count > kMostMembers) return room;
  std::vector<std::thread> threads;
  std::vector<Result<KnownNumbers>> known(here.size());
  for (std::size_t i = 0; i < here.size(); ++i)
    threads.emplace_back([&, i] {
      known[i] = exchange_known_numbers(*nccl_, communicators[here[i].first], here[i].first, count,
                                        *here[i].second);
    });
  for (std::thread& thread : threads) thread.join();
  for (const Result<KnownNumbers>& each : known) {
    if (!each) return tl::unexpected(each.error());
    shared_.report.checked_collectives += each->collectives;
    shared_.report.checked_bytes += each->bytes;
  }
  return room;
}

Status CudaBackend::add_devices(Seats seats, std::vector<std::unique_ptr<Device>>& devices) {
  const Job& job = shared_.job;
  const Graph& graph = *job.graph;
  // Ranks of one GPU share what they use apart from their schedule's memory.
  for (std::size_t g = 0; g < gpus_.size(); ++g) {
    Gpu& gpu = *gpus_[g];
    const std::size_t first = is_shared_ ? 0 : g, end = is_shared_ ? job.ranks.size() : g + 1;
    WorkPlanner planner(graph, gpu.products());
    std::vector<std::vector<WorkPlan>> plans;
    for (std::size_t rank = first; rank < end; ++rank)
      plans.push_back(planner.plan(graph.at(graph.classes[job.class_of[rank]].program)));
    if (gpu.products() != nullptr)
      if (const Status loaded = gpu.products()->load(gpu.own_stream()); !loaded)
        return tl::unexpected(loaded.error());
    const auto scratch = planner.make_scratch(gpu);
    if (!scratch) return tl::unexpected(scratch.error());
    if (g == 0 && gpu.products() != nullptr && planner.products_without_library() > 0)
      description_ += fmt::format(" ({} ops that are products by own kernels)",
                                  planner.products_without_library());
    const Bytes share = (gpu.free_memory() - kOutside) / static_cast<Bytes>(end - first);
    for (std::size_t rank = first; rank < end; ++rank) {
      auto device =
          CudaDevice::create(shared_, static_cast<std::uint32_t>(rank), gpu, is_shared_,
                             std::min(job.capacity, share), is_shared_ ? kPlacesShared : kPlaces,
                             std::move(seats[rank]), std::move(plans[rank - first]), *scratch);
      if (!device) return tl::unexpected(device.error());
      devices_.push_back(device->get());
      devices.push_back(std::move(*device));
    }
  }
  return {};
}

void CudaBackend::report_all() {
  const Clock& clock = *shared_.job.clock;
  for (Ns last = clock.now(); !shared_.failed;) {
    bool any = false;
    for (CudaDevice* const device : devices_) any = device->report() || any;
    for (const auto& gpu : gpus_) {
      (void)gpu->use();
      gpu->compare_clocks();
    }
    const bool is_idle =
        !any && std::ranges::all_of(devices_, [](CudaDevice* device) { return device->is_idle(); });
    if (any || is_idle) last = clock.now();
    if (any) continue;
    if (is_stopping_ && is_idle) return;
    if (clock.now() - last > kStall) {
      std::string awaited;
      for (CudaDevice* const device : devices_) {
        const std::string keys = device->awaited();
        awaited += (awaited.empty() || keys.empty() ? "" : ", ") + keys;
      }
      failed(fail_work("", "nothing has ended on the GPU for {} s; not ended: {}", kStall / kSecond,
                       awaited)
                 .value());
    }
    for (const auto& room : rooms_)
      if (const Status well = room->check(); !well) failed(well.error());
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

void CudaBackend::abandon() {
  shared_.failed = true;
  for (CudaDevice* const device : devices_) device->wake();
  for (const auto& room : rooms_) room->abandon();
}

void CudaBackend::stop() {
  is_stopping_ = true;
  if (reporter_.joinable()) reporter_.join();
}

}  // namespace
}  // namespace foregather::runtime::cuda

extern "C" __attribute__((visibility("default"))) const foregather::runtime::BackendPlugin*
foregather_backend() {
  using namespace foregather::runtime;
  static constexpr BackendPlugin plug_in{kBackendVersion,
                                         []() -> Backend* { return new cuda::CudaBackend(); },
                                         [](Backend* backend) { delete backend; }};
  return &plug_in;
}
