#include "profiler/cupti_session.h"

#include <array>
#include <string_view>

namespace foregather::profiler {
namespace {

constexpr std::uint32_t kTakesNoBuffer = 27;  // API of CUDA 12.9

std::atomic<CuptiSession*> g_session{nullptr};

struct Enabled {
  Kind kind;
  std::uint32_t activity;
};
// Memcpy brings copies between devices along. Graphs as wholes exclude their nodes.
constexpr std::array kActivities{Enabled{Kind::kernel, cupti::kConcurrentKernel},
                                 Enabled{Kind::memcpy, cupti::kMemcpy},
                                 Enabled{Kind::memset, cupti::kMemset},
                                 Enabled{Kind::runtime, cupti::kRuntime},
                                 Enabled{Kind::driver, cupti::kDriver},
                                 Enabled{Kind::sync, cupti::kSynchronization},
                                 Enabled{Kind::event, cupti::kCudaEvent},
                                 Enabled{Kind::overhead, cupti::kOverhead},
                                 Enabled{Kind::memory, cupti::kMemory2},
                                 Enabled{Kind::memory, cupti::kMemoryPool},
                                 Enabled{Kind::graph, cupti::kGraphTrace},
                                 Enabled{Kind::kernel, cupti::kDevice},
                                 Enabled{Kind::kernel, cupti::kContext},
                                 Enabled{Kind::kernel, cupti::kStream},
                                 Enabled{Kind::kernel, cupti::kName},
                                 Enabled{Kind::external, cupti::kExternalCorrelation}};

// Calls that programs make all the time and that launch nothing.
constexpr std::array<std::string_view, 8> kNoise{
    "cudaGetDevice",   "cudaSetDevice",   "cudaGetLastError", "cudaPeekAtLastError",
    "cuCtxGetCurrent", "cuCtxSetCurrent", "cuCtxGetDevice",   "cuKernelGetAttribute"};
constexpr std::uint32_t kMostCallbacks = 2048;

bool is_noise(std::string_view name) {
  name = name.substr(0, name.find("_v"));
  for (const std::string_view noise : kNoise)
    if (name == noise) return true;
  return false;
}

}  // namespace

CuptiSession* CuptiSession::start(Recorder& recorder) {
  std::string error;
  auto library = open_cupti(error);
  if (!library) {
    recorder.tell("no device work is recorded: " + error);
    return nullptr;
  }
  auto* const session = new CuptiSession(recorder, std::move(*library));
  g_session.store(session, std::memory_order_release);
  if (session->enable()) return session;
  return nullptr;  // not freed: CUPTI may know of it
}

bool CuptiSession::enable() {
  const auto give_up = [&](const char* what, int result) {
    recorder_.tell(result == cupti::kMultipleSubscribers
                       ? "no device work is recorded: another profiler is attached to CUPTI "
                         "(torch.profiler, nsys, ncu or a debugger), which takes one at a time. "
                         "NVTX and NCCL are recorded"
                       : "no device work is recorded: " + std::string(what) + " failed with " +
                             library_.text(result) +
                             " (is there a driver? may this user read performance counters?)");
    return false;
  };
  const auto nothing = [](void*, int, std::uint32_t, const void*) {};
  if (const int result = library_.subscribe(&subscriber_, nothing, nullptr);
      result != cupti::kSuccess)
    return give_up("cuptiSubscribe", result);
  library_.set_thread_id_type(cupti::kSystemThreadIds);
  if (const int result = library_.register_callbacks(requested, completed);
      result != cupti::kSuccess)
    return give_up("cuptiActivityRegisterCallbacks", result);
  for (const Enabled& one : kActivities) {
    if (!has(recorder_.settings().kinds, one.kind)) continue;
    const int result = library_.enable(one.activity);
    if (result == cupti::kSuccess) {
      enabled_.push_back(one.activity);
    } else if (one.activity == cupti::kConcurrentKernel || result == cupti::kMultipleSubscribers) {
      stop();
      return give_up("cuptiActivityEnable", result);
    } else {
      recorder_.tell("records of kind " + std::to_string(one.activity) +
                     " are left out: " + library_.text(result));
    }
  }
  for (const auto& [domain, filter] :
       {std::pair(cupti::kDriverDomain, library_.enable_driver_api),
        std::pair(cupti::kRuntimeDomain, library_.enable_runtime_api)})
    for (std::uint32_t callback = 1; filter != nullptr && callback < kMostCallbacks; ++callback) {
      const char* name = nullptr;
      if (library_.callback_name(domain, callback, &name) == cupti::kSuccess && name != nullptr &&
          is_noise(name))
        filter(callback, 0);
    }
  return true;
}

void CuptiSession::requested(std::uint8_t** buffer, std::size_t* size, std::size_t* max_records) {
  *buffer = g_session.load(std::memory_order_acquire)->buffer();
  *size = *buffer == nullptr ? 0 : BufferPool::kBytes;
  *max_records = 0;
}

std::uint8_t* CuptiSession::buffer() {
  if (std::uint8_t* const free = pool_.take()) return free;
  recorder_.wake();
  if (library_.version >= kTakesNoBuffer) return nullptr;
  const auto oldest = pool_.take_full();
  if (!oldest) return nullptr;
  overrun_.fetch_add(records_in(oldest->buffer, oldest->valid), std::memory_order_relaxed);
  return oldest->buffer;
}

std::int64_t CuptiSession::records_in(std::uint8_t* buffer, std::size_t valid) const {
  std::int64_t records = 0;
  cupti::Record* record = nullptr;
  while (library_.next_record(buffer, valid, &record) == cupti::kSuccess) ++records;
  return records;
}

void CuptiSession::completed(void*, std::uint32_t, std::uint8_t* buffer, std::size_t,
                             std::size_t valid) {
  CuptiSession& session = *g_session.load(std::memory_order_acquire);
  if (valid == 0) return session.pool_.give_back(buffer);
  session.pool_.put_full(buffer, valid);
  session.recorder_.wake();
}

void CuptiSession::flush(bool all) {
  library_.flush_all(all ? cupti::kFlushForced : 0);
  std::size_t dropped = 0;
  if (library_.dropped_records(nullptr, 0, &dropped) == cupti::kSuccess)
    dropped_.fetch_add(static_cast<std::int64_t>(dropped), std::memory_order_relaxed);
  if (all) stop();
}

void CuptiSession::write(RawFile& file) {
  if (!decoder_)
    decoder_ = std::make_unique<CuptiDecoder>(
        file, recorder_.window(),
        CuptiDecoder::Library{cupti::Layout::of(library_.version), library_.next_record,
                              library_.callback_name},
        recorder_.identity().pid);
  while (const auto full = pool_.take_full()) {
    decoder_->decode(full->buffer, full->valid);
    pool_.give_back(full->buffer);
  }
  file.count("too_fast_for_the_writer", overrun_.exchange(0));
  file.count("dropped_by_cupti", dropped_.exchange(0));
  if (is_stopped_.load(std::memory_order_acquire)) decoder_->finish();
}

Cell CuptiSession::clock() const {
  std::uint64_t time = 0;
  if (library_.get_timestamp(&time) != cupti::kSuccess) return {};
  return static_cast<std::int64_t>(time);
}

void CuptiSession::stop() {
  if (is_stopped_.exchange(true)) return;
  for (const std::uint32_t activity : enabled_) library_.disable(activity);
  library_.unsubscribe(subscriber_);
}

}  // namespace foregather::profiler
