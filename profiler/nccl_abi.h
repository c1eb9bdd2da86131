// NCCL's profiler plug-in interface, versions 4 (NCCL 2.27) and 5 (2.28 and later), in declarations
// of our own: it is in NCCL's sources alone (plugins/profiler, ext-profiler), not in its packages.
#pragma once

#include <cstddef>
#include <cstdint>

namespace foregather::profiler::nccl {

enum EventType : std::uint64_t {
  kGroup = 1,
  kCollective = 2,
  kP2p = 4,
  kProxyOp = 8,
  kProxyStep = 16,
  kProxyControl = 32,
  kKernelChannel = 64,
  kNetPlugin = 128,
  kGroupApi = 256,
  kCollectiveApi = 512,
  kP2pApi = 1024,
  kKernelLaunch = 2048,
};

enum State : int {
  kStepSendGpuWait = 8,
  kStepSendWait = 9,
  kStepRecvWait = 10,
  kStepRecvFlushWait = 11,
  kStepRecvGpuWait = 12,
  kStepSendPeerWait = 20,
  kKernelChannelStop = 22,
};

struct GroupApi {
  int graph_captured, depth;
};
struct CollectiveApi {
  const char* function;
  std::size_t count;
  const char* datatype;
  int root;
  void* stream;
  bool graph_captured;
};
struct P2pApi {
  const char* function;
  std::size_t count;
  const char* datatype;
  void* stream;
  bool graph_captured;
};
struct KernelLaunch {
  void* stream;
};
struct Collective {
  std::uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  std::size_t count;
  int root;
  const char* datatype;
  std::uint8_t channels, warps;
  const char *algorithm, *protocol;
  void* group;  // version 5
};
struct P2p {
  const char* function;
  void* buffer;
  const char* datatype;
  std::size_t count;
  int peer;
  std::uint8_t channels;
  void* group;  // version 5
};
struct ProxyOp {
  int pid;  // of the process that the parent is of
  std::uint8_t channel;
  int peer, steps, chunk_bytes, is_send;
};
struct ProxyStep {
  int step;
};
struct KernelChannel {
  std::uint8_t channel;
  std::uint64_t gpu_time;  // of the device's globaltimer, ns
};

/// An event as version 5 describes it; that of version 4 differs in that `type` has one byte.
struct Event {
  std::uint64_t type;
  void* parent;
  int rank;
  union {
    GroupApi group_api;
    CollectiveApi collective_api;
    P2pApi p2p_api;
    KernelLaunch kernel_launch;
    Collective collective;
    P2p p2p;
    ProxyOp proxy_op;
    ProxyStep proxy_step;
    KernelChannel kernel_channel;
  };
};

union StateArguments {
  std::size_t bytes;  // of a step
  std::uint64_t gpu_time;
};

inline constexpr int kSuccess = 0;
using Logger = void (*)(int level, unsigned long flags, const char* file, int line,
                        const char* format, ...);

struct ProfilerV5 {
  const char* name;
  int (*init)(void** context, std::uint64_t communicator, int* mask, const char* communicator_name,
              int nodes, int ranks, int rank, Logger logger);
  int (*start_event)(void* context, void** handle, const Event* event);
  int (*stop_event)(void* handle);
  int (*record_state)(void* handle, int state, const StateArguments* arguments);
  int (*finalize)(void* context);
};
struct ProfilerV4 {
  const char* name;
  int (*init)(void** context, int* mask, const char* communicator_name, std::uint64_t communicator,
              int nodes, int ranks, int rank, Logger logger);
  int (*start_event)(void* context, void** handle, const Event* event);
  int (*stop_event)(void* handle);
  int (*record_state)(void* handle, int state, const StateArguments* arguments);
  int (*finalize)(void* context);
};

static_assert(offsetof(Event, parent) == 8 && offsetof(Event, rank) == 16 &&
              offsetof(Event, collective) == 24 && offsetof(Collective, datatype) == 48 &&
              offsetof(Collective, channels) == 56 && offsetof(Collective, algorithm) == 64);

}  // namespace foregather::profiler::nccl
