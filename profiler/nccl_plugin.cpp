// What NCCL finds of the injection library: NCCL_PROFILER_PLUGIN. Callbacks always succeed: a
// failure of the recording must not be one of the program.
#include <atomic>
#include <exception>

#include "profiler/nccl_events.h"
#include "profiler/recorder.h"

namespace foregather::profiler {
namespace nccl_entries {
namespace {

// Never freed, as the contexts of communicators: NCCL's threads may report until the process ends.
NcclEvents& events() {
  static auto* const events = new NcclEvents;
  return *events;
}

struct Context {
  std::uint64_t communicator = 0;
  const Context* before = nullptr;  ///< the one made before: all stay within reach
};
std::atomic<const Context*> g_contexts{nullptr};

template <class Do>
int always(const Do& action) {
  try {
    action();
  } catch (const std::exception&) {
    return nccl::kSuccess;
  }
  return nccl::kSuccess;
}

int init(void** context, std::uint64_t communicator, int* mask, const char* name, int nodes,
         int ranks, int rank, nccl::Logger) {
  return always([&] {
    *mask = 0;
    Recorder* const recorder = Recorder::instance();
    auto* const made = new Context{communicator, g_contexts.load()};
    while (!g_contexts.compare_exchange_weak(made->before, made)) {
    }
    *context = made;
    if (recorder == nullptr) return;
    const Kinds kinds = recorder->settings().kinds;
    if (!has(kinds, Kind::nccl)) return;
    *mask = NcclEvents::mask(has(kinds, Kind::nccl_steps));
    events().add_communicator(communicator, name == nullptr ? "" : name, nodes, ranks, rank);
  });
}

int init_v4(void** context, int* mask, const char* name, std::uint64_t communicator, int nodes,
            int ranks, int rank, nccl::Logger logger) {
  return init(context, communicator, mask, name, nodes, ranks, rank, logger);
}

void start(void* context, void** handle, const nccl::Event* event, std::uint64_t type) {
  *handle = nullptr;
  if (context == nullptr || event == nullptr) return;
  *handle = events().start(static_cast<const Context*>(context)->communicator, *event, type);
}

int start_event(void* context, void** handle, const nccl::Event* event) {
  return always([&] { start(context, handle, event, event->type); });
}

int start_event_v4(void* context, void** handle, const nccl::Event* event) {
  return always([&] { start(context, handle, event, event->type & 0xffU); });
}

int stop_event(void* handle) {
  return always([&] { events().stop(handle); });
}

int record_state(void* handle, int state, const nccl::StateArguments* arguments) {
  return always([&] { events().record(handle, state, arguments); });
}

int finalize(void*) { return nccl::kSuccess; }

}  // namespace
}  // namespace nccl_entries
}  // namespace foregather::profiler

extern "C" {
__attribute__((
    visibility("default"))) extern const foregather::profiler::nccl::ProfilerV5 ncclProfiler_v5;
__attribute__((
    visibility("default"))) extern const foregather::profiler::nccl::ProfilerV4 ncclProfiler_v4;

const foregather::profiler::nccl::ProfilerV5 ncclProfiler_v5{
    "foregather",
    foregather::profiler::nccl_entries::init,
    foregather::profiler::nccl_entries::start_event,
    foregather::profiler::nccl_entries::stop_event,
    foregather::profiler::nccl_entries::record_state,
    foregather::profiler::nccl_entries::finalize};
const foregather::profiler::nccl::ProfilerV4 ncclProfiler_v4{
    "foregather",
    foregather::profiler::nccl_entries::init_v4,
    foregather::profiler::nccl_entries::start_event_v4,
    foregather::profiler::nccl_entries::stop_event,
    foregather::profiler::nccl_entries::record_state,
    foregather::profiler::nccl_entries::finalize};
}
