// A stand-in for libcupti.so.13 where there is no driver: the calls succeed, and fakeCuptiWork(N)
// reports N launches as a program's own threads would: into buffers that it asks for, unordered.
// FAKE_CUPTI_BUSY: another client is attached. FAKE_CUPTI_VERSION: of the API. FAKE_CUPTI_HOLDS: no
// buffer is handed over before a forced flush. FAKE_CUPTI_LATE: kernels take as many milliseconds,
// a flush hands over what has ended, and what has not is lost where kinds are switched off.
// FAKE_CUPTI_REFUSES: a kind that cannot be recorded. FAKE_CUPTI_NOISE: each launch comes with two
// calls that launch nothing, those that are switched off left out.
// FAKE_CUPTI_GOES_ON: a thread reports until the process is gone. As CUPTI does, it holds a lock of
// its own while it calls back, and takes it in each call; and it takes itself down at the exit,
// when what was registered before it was opened has not run: who calls it then crashes.
#include <cupti.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace {

CUpti_BuffersCallbackRequestFunc g_request = nullptr;
CUpti_BuffersCallbackCompleteFunc g_complete = nullptr;
std::size_t g_dropped = 0;

std::atomic<bool> g_is_down{false};
struct TearDown {
  ~TearDown() { g_is_down = true; }
} g_tear_down;
void need_no_exit() {
  if (g_is_down) std::abort();
}

// Never freed: threads may be in it when the process ends.
std::recursive_mutex& own_lock() {
  static auto& lock = *new std::recursive_mutex;
  return lock;
}
using Locked = std::lock_guard<std::recursive_mutex>;

std::set<CUpti_CallbackId>& switched_off() {
  static auto& calls = *new std::set<CUpti_CallbackId>;
  return calls;
}

struct Held {
  std::uint8_t* buffer;
  std::size_t size, used;
  std::uint64_t until;
};
std::vector<Held>& held() {
  static auto& buffers = *new std::vector<Held>;
  return buffers;
}

std::uint64_t milliseconds(const char* variable) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10) * 1'000'000U;
}

std::size_t size_of(const CUpti_Activity* record) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_RUNTIME: return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_CONTEXT: return sizeof(CUpti_ActivityContext3);
    case CUPTI_ACTIVITY_KIND_DEVICE: return sizeof(CUpti_ActivityDevice5);
    default: return 0;
  }
}

std::uint64_t now() {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(time.tv_nsec);
}

/// A buffer that is asked for when the first record comes and handed over when it is full.
class Filling {
 public:
  ~Filling() { hand_over(); }
  template <class Record>
  void add(const Record& record) {
    const Locked lock(own_lock());
    if (buffer_ != nullptr && used_ + sizeof record > size_) hand_over();
    if (buffer_ == nullptr) {
      std::size_t most = 0;
      g_request(&buffer_, &size_, &most);
      used_ = 0;
    }
    if (buffer_ == nullptr || size_ < sizeof record) {
      ++g_dropped;
      return;
    }
    std::memcpy(buffer_ + used_, &record, sizeof record);
    used_ += sizeof record;
  }

 private:
  void hand_over() {
    const Locked lock(own_lock());
    const std::uint64_t late = milliseconds("FAKE_CUPTI_LATE");
    if (buffer_ != nullptr && (late > 0 || std::getenv("FAKE_CUPTI_HOLDS") != nullptr))
      held().push_back({buffer_, size_, used_, now() + late});
    else if (buffer_ != nullptr)
      g_complete(nullptr, 0, buffer_, size_, used_);
    buffer_ = nullptr;
  }
  std::uint8_t* buffer_ = nullptr;
  std::size_t size_ = 0, used_ = 0;
};

void launches(std::uint32_t first, int count) {
  Filling kernels, calls;
  const std::uint64_t late = milliseconds("FAKE_CUPTI_LATE");
  std::uint64_t at = now();
  for (int i = 0; i < count; ++i, at += 10000) {
    CUpti_ActivityKernel10 kernel{};
    kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    kernel.name = "_Z3addPfS_i";
    kernel.start = at + 2000;
    kernel.end = at + 7000 + late;
    kernel.contextId = 1;
    kernel.streamId = 7;
    kernel.correlationId = first + static_cast<std::uint32_t>(i);
    kernel.gridX = kernel.gridY = kernel.gridZ = kernel.blockY = kernel.blockZ = 1;
    kernel.blockX = 128;
    kernels.add(kernel);
    CUpti_ActivityAPI call{};
    call.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
    call.cbid = 211;
    call.start = at;
    call.end = at + 1500;
    call.processId = static_cast<std::uint32_t>(::getpid());
    call.threadId = static_cast<std::uint32_t>(::getpid());
    call.correlationId = kernel.correlationId;
    calls.add(call);
    if (std::getenv("FAKE_CUPTI_NOISE") == nullptr) continue;
    for (const CUpti_CallbackId id : {16U, 17U}) {
      call.cbid = id;
      call.correlationId = 0;
      if (!switched_off().contains(id)) calls.add(call);
    }
  }
}

}  // namespace

extern "C" {
CUptiResult cuptiGetVersion(uint32_t* version) {
  const char* const other = std::getenv("FAKE_CUPTI_VERSION");
  *version = other != nullptr ? static_cast<uint32_t>(std::atoi(other)) : CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetTimestamp(uint64_t* time) {
  *time = now();
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetResultString(CUptiResult, const char** text) {
  *text = "CUPTI_ERROR_OF_THE_TEST";
  return CUPTI_SUCCESS;
}
CUptiResult cuptiSubscribe(CUpti_SubscriberHandle*, CUpti_CallbackFunc, void*) {
  return std::getenv("FAKE_CUPTI_BUSY") != nullptr ? CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
                                                   : CUPTI_SUCCESS;
}
CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle) { return CUPTI_SUCCESS; }
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete) {
  g_request = request;
  g_complete = complete;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  const char* const refused = std::getenv("FAKE_CUPTI_REFUSES");
  return refused != nullptr && std::atoi(refused) == static_cast<int>(kind)
             ? CUPTI_ERROR_NOT_COMPATIBLE
             : CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId call, uint8_t enable) {
  if (enable == 0) switched_off().insert(call);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityDisable(CUpti_ActivityKind) {
  need_no_exit();
  const Locked lock(own_lock());
  if (milliseconds("FAKE_CUPTI_LATE") > 0) held().clear();
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushAll(uint32_t flags) {
  need_no_exit();
  const Locked lock(own_lock());
  const bool hands_over = flags != 0 || milliseconds("FAKE_CUPTI_LATE") > 0;
  std::erase_if(held(), [&](const Held& one) {
    if (!hands_over || (flags == 0 && one.until > now())) return false;
    g_complete(nullptr, 0, one.buffer, one.size, one.used);
    return true;
  });
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  need_no_exit();
  const Locked lock(own_lock());
  *dropped = g_dropped;
  g_dropped = 0;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType) { return CUPTI_SUCCESS; }
CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain, uint32_t callback, const char** name) {
  *name = callback == 211  ? "cudaLaunchKernel_v7000"
          : callback == 16 ? "cudaGetDevice_v3020"
          : callback == 17 ? "cudaGetDeviceCount_v3020"
                           : "other";
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, CUpti_Activity** record) {
  uint8_t* const next =
      *record == nullptr ? buffer : reinterpret_cast<uint8_t*>(*record) + size_of(*record);
  if (next >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}

/// `count` launches from each of two threads.
void fakeCuptiWork(int count) {
  if (g_request == nullptr) return;
  std::thread other(launches, 1'000'000U, count);
  launches(1, count);
  other.join();
  if (std::getenv("FAKE_CUPTI_GOES_ON") != nullptr)
    std::thread([] {
      for (std::uint32_t first = 2'000'000U;; first += 100) launches(first, 100);
    }).detach();
}
}
