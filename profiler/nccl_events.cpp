#include "profiler/nccl_events.h"

#include <algorithm>

#include "profiler/recorder.h"

namespace foregather::profiler {
namespace {

constexpr unsigned kPlaceBits = 14;
static_assert(NcclEvents::kPlaces < std::size_t{1} << kPlaceBits);

std::int64_t id_of(void* handle) {
  return static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(handle));
}

// Columns that are known at the end only.
constexpr std::size_t kCallEnd = 4, kEnqueued = 3, kProxyEnd = 3, kStepEnd = 2, kStepBytes = 4,
                      kGpuWait = 5, kPeerWait = 6, kNetworkWait = 7, kFlushWait = 8,
                      kChannelEnd = 2, kGpuEnd = 5;

struct Shape {
  RawTable table;
  std::size_t end;
};
Shape shape(std::uint64_t type) {
  switch (type) {
    case nccl::kCollective: return {RawTable::nccl_collective, kEnqueued};
    case nccl::kP2p: return {RawTable::nccl_p2p, kEnqueued};
    case nccl::kProxyOp: return {RawTable::nccl_proxy, kProxyEnd};
    case nccl::kProxyStep: return {RawTable::nccl_step, kStepEnd};
    case nccl::kKernelChannel: return {RawTable::nccl_channel, kChannelEnd};
    default: return {RawTable::nccl_call, kCallEnd};
  }
}

}  // namespace

int NcclEvents::mask(bool with_steps) {
  std::uint64_t mask = nccl::kGroup | nccl::kCollective | nccl::kP2p | nccl::kProxyOp |
                       nccl::kKernelChannel | nccl::kGroupApi | nccl::kCollectiveApi |
                       nccl::kP2pApi | nccl::kKernelLaunch;
  if (with_steps) mask |= nccl::kProxyStep;
  return static_cast<int>(mask);
}

void NcclEvents::add_communicator(std::uint64_t communicator, std::string_view name, int nodes,
                                  int ranks, int rank) {
  Recorder* const recorder = Recorder::instance();
  if (recorder == nullptr) return;
  const Cell cells[] = {static_cast<std::int64_t>(communicator), Cell(), nodes, ranks, rank};
  recorder->add({RawTable::nccl_communicator, cells, name, 1});
}

Cell NcclEvents::name(Recorder& recorder, const char* text) {
  constexpr std::size_t kMostNames = 256;
  if (text == nullptr) return {};
  const std::lock_guard lock(mutex_);
  if (named_for_ != &recorder) names_.clear();
  named_for_ = &recorder;
  auto known = std::find(names_.begin(), names_.end(), text);
  if (known == names_.end()) {
    if (names_.size() == kMostNames) return {};
    names_.emplace_back(text);
    known = std::prev(names_.end());
    recorder.later([id = -std::ssize(names_), said = *known](RawFile& file) {
      file.run("INSERT INTO StringIds VALUES (?, ?)", static_cast<std::int64_t>(id),
               std::string_view(said));
    });
  }
  return -static_cast<std::int64_t>(known - names_.begin()) - 1;
}

Cell NcclEvents::parent_of(const nccl::Event& event, std::uint64_t type, std::int64_t pid) {
  // With PXN a proxy works for another process, whose handles mean nothing here.
  if (type == nccl::kProxyOp && event.proxy_op.pid != pid) return {};
  return event.parent == nullptr ? Cell() : Cell(id_of(event.parent));
}

NcclEvents::Place* NcclEvents::take(std::int64_t& id) {
  const std::lock_guard lock(mutex_);
  if (free_.empty() && places_.empty()) {
    places_.resize(kPlaces);
    for (std::uint32_t i = kPlaces; i-- > 0;) free_.push_back(i);
  }
  if (free_.empty()) return nullptr;
  const std::uint32_t at = free_.back();
  free_.pop_back();
  Place& place = places_[at];
  ++place.uses;
  place.is_used = true;
  id = static_cast<std::int64_t>(place.uses) << kPlaceBits | at;
  return &place;
}

NcclEvents::Place* NcclEvents::find(void* handle) {
  const std::int64_t id = id_of(handle);
  const auto at = static_cast<std::size_t>(id & ((1 << kPlaceBits) - 1));
  const std::lock_guard lock(mutex_);
  if (at >= places_.size()) return nullptr;
  Place& place = places_[at];
  return place.is_used && place.uses == static_cast<std::uint32_t>(id >> kPlaceBits) ? &place
                                                                                     : nullptr;
}

void NcclEvents::give_back(void* handle) {
  const auto at = static_cast<std::uint32_t>(id_of(handle) & ((1 << kPlaceBits) - 1));
  const std::lock_guard lock(mutex_);
  places_[at].is_used = false;
  free_.push_back(at);
}

void* NcclEvents::start(std::uint64_t communicator, const nccl::Event& event, std::uint64_t type) {
  Recorder* const recorder = Recorder::instance();
  if (recorder == nullptr) return nullptr;
  const std::int64_t now = recorder->now(), thread = recorder->global_tid();
  const auto said = [&](const char* text) { return name(*recorder, text); };
  const auto pointer = [](const void* address) {
    return static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(address));
  };
  const auto amount = [](std::size_t count) { return static_cast<std::int64_t>(count); };
  const auto owner = static_cast<std::int64_t>(communicator);
  const Cell parent = parent_of(event, type, recorder->identity().pid), none;
  std::int64_t id = 0;
  std::vector<Cell> cells;
  const auto call = [&](std::initializer_list<Cell> own) {
    cells = {none, parent, static_cast<std::int64_t>(type), now, none, thread};
    cells.insert(cells.end(), own);
  };
  switch (type) {
    case nccl::kGroupApi:
      call({none, none, none, none, none, event.group_api.depth, event.group_api.graph_captured});
      break;
    case nccl::kCollectiveApi: {
      const nccl::CollectiveApi& api = event.collective_api;
      call({said(api.function), amount(api.count), said(api.datatype), api.root,
            pointer(api.stream), none, api.graph_captured ? 1 : 0});
      break;
    }
    case nccl::kP2pApi: {
      const nccl::P2pApi& api = event.p2p_api;
      call({said(api.function), amount(api.count), said(api.datatype), none, pointer(api.stream),
            none, api.graph_captured ? 1 : 0});
      break;
    }
    case nccl::kKernelLaunch:
      call({none, none, none, none, pointer(event.kernel_launch.stream), none, none});
      break;
    case nccl::kGroup: call({none, none, none, none, none, none, none}); break;
    case nccl::kCollective: {
      const nccl::Collective& of = event.collective;
      cells = {none,
               parent,
               now,
               none,
               thread,
               owner,
               amount(of.sequence),
               said(of.function),
               amount(of.count),
               said(of.datatype),
               of.root,
               said(of.algorithm),
               said(of.protocol),
               of.channels,
               of.warps};
      break;
    }
    case nccl::kP2p: {
      const nccl::P2p& of = event.p2p;
      cells = {none,
               parent,
               now,
               none,
               thread,
               owner,
               said(of.function),
               amount(of.count),
               said(of.datatype),
               of.peer,
               of.channels};
      break;
    }
    case nccl::kProxyOp: {
      const nccl::ProxyOp& of = event.proxy_op;
      cells = {none,       parent,  now,      none,           thread,    of.pid,
               of.channel, of.peer, of.steps, of.chunk_bytes, of.is_send};
      break;
    }
    case nccl::kProxyStep:
      cells = {parent, now, none, event.proxy_step.step, none, none, none, none, none};
      break;
    case nccl::kKernelChannel:
      cells = {
          parent, now, none, event.kernel_channel.channel, amount(event.kernel_channel.gpu_time),
          none};
      break;
    default: return nullptr;
  }
  Place* const place = take(id);
  if (place == nullptr) {
    recorder->count("nccl_events_at_a_time");
    return nullptr;
  }
  if (type != nccl::kProxyStep && type != nccl::kKernelChannel) cells[0] = id;
  place->type = type;
  place->start = now;
  place->width = cells.size();
  std::copy(cells.begin(), cells.end(), place->cells.begin());
  return reinterpret_cast<void*>(static_cast<std::intptr_t>(id));
}

void NcclEvents::stop(void* handle) {
  Recorder* const recorder = Recorder::instance();
  if (recorder == nullptr || handle == nullptr) return;
  Place* const place = find(handle);
  if (place == nullptr) return recorder->count("nccl_stop_without_start");
  const Shape of = shape(place->type);
  place->cells[of.end] = recorder->now();
  recorder->add({of.table, {place->cells.data(), place->width}, {}, 0}, place->start);
  give_back(handle);
}

void NcclEvents::record(void* handle, int state, const nccl::StateArguments* arguments) {
  Recorder* const recorder = Recorder::instance();
  if (recorder == nullptr || handle == nullptr) return;
  Place* const place = find(handle);
  if (place == nullptr) return recorder->count("nccl_state_without_start");
  if (place->type == nccl::kKernelChannel) {
    if (state == nccl::kKernelChannelStop && arguments != nullptr)
      place->cells[kGpuEnd] = static_cast<std::int64_t>(arguments->gpu_time);
    return;
  }
  if (place->type != nccl::kProxyStep) return;
  const auto reached = [&](std::size_t column) {
    if (!place->cells[column]) place->cells[column] = recorder->now();
  };
  switch (state) {
    case nccl::kStepSendGpuWait:
    case nccl::kStepRecvGpuWait: reached(kGpuWait); break;
    case nccl::kStepSendPeerWait: reached(kPeerWait); break;
    case nccl::kStepSendWait:
    case nccl::kStepRecvWait: reached(kNetworkWait); break;
    case nccl::kStepRecvFlushWait: reached(kFlushWait); break;
    default: return;
  }
  if (arguments != nullptr) place->cells[kStepBytes] = static_cast<std::int64_t>(arguments->bytes);
}

}  // namespace foregather::profiler
