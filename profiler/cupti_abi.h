// CUPTI's activity API as the recorder uses it, in declarations of our own: the library is opened
// at run time, in whatever version the recorded program brings along, and building needs none.
//
// Layouts are those of cupti_activity.h of CUDA 13.0 (CUPTI API 130001). Later versions append
// fields, and so did earlier ones: a record of CUDA 12 is a beginning of these, except for the
// fields that cupti::Layout names. tests/unit/profiler compares them with the header.
#pragma once

#include <cstddef>
#include <cstdint>

namespace foregather::profiler::cupti {

enum ActivityKind : std::uint32_t {
  kMemcpy = 1,
  kMemset = 2,
  kKernel = 3,
  kDriver = 4,
  kRuntime = 5,
  kDevice = 8,
  kContext = 9,
  kConcurrentKernel = 10,
  kName = 11,
  kMarker = 12,
  kMarkerData = 13,
  kOverhead = 17,
  kMemcpy2 = 22,
  kCudaEvent = 36,
  kStream = 37,
  kSynchronization = 38,
  kExternalCorrelation = 39,
  kMemory2 = 49,
  kMemoryPool = 50,
  kGraphTrace = 51,
};

/// Which fields the records of a version have.
struct Layout {
  bool has_sync_ids = true;              ///< Synchronization2, CudaEvent2: from CUDA 12.8 (API 26)
  bool has_overhead_correlation = true;  ///< Overhead2: from CUDA 12.2 (API 20)
  static constexpr std::uint32_t kOldest = 19;  ///< CUDA 12.0: Kernel9, Memcpy5, Memset4, Memory3
  static constexpr Layout of(std::uint32_t api_version) {
    return {api_version >= 26, api_version >= 20};
  }
};

struct Record {
  std::uint32_t kind;
};

struct Kernel {  // CUpti_ActivityKernel10; Kernel9 lacks the last 8 bytes
  std::uint32_t kind;
  std::uint8_t cache_config, shared_memory_config;
  std::uint16_t registers_per_thread;
  std::uint32_t partitioned_requested, partitioned_executed;
  std::uint64_t start, end, completed;
  std::uint32_t device, context, stream;
  std::int32_t grid_x, grid_y, grid_z, block_x, block_y, block_z;
  std::int32_t static_shared_memory, dynamic_shared_memory;
  std::uint32_t local_memory_per_thread, local_memory_total, correlation;
  std::int64_t grid_id;
  const char* name;
  void* reserved;
  std::uint64_t queued, submitted;
  std::uint8_t launch_type, carveout_requested, carveout, padding;
  std::uint32_t shared_memory_executed;
  std::uint64_t graph_node;
  std::uint32_t shared_memory_limit, graph;
  void* access_policy;
  std::uint32_t channel, channel_type, cluster_x, cluster_y, cluster_z, cluster_policy;
  std::uint64_t local_memory_total_64;
  std::uint32_t max_cluster_size, max_active_clusters;
  std::uint8_t is_device_launched, padding_2[7];
};

struct Memcpy {  // CUpti_ActivityMemcpy6; Memcpy5 lacks the last 8 bytes
  std::uint32_t kind;
  std::uint8_t copy_kind, source_kind, target_kind, flags;
  std::uint64_t bytes, start, end;
  std::uint32_t device, context, stream, correlation, runtime_correlation, padding;
  void* reserved;
  std::uint64_t graph_node;
  std::uint32_t graph, channel, channel_type;
  std::uint8_t is_device_launched, padding_2[3];
  std::uint64_t copies;
};

struct MemcpyPeer {  // CUpti_ActivityMemcpyPtoP4
  std::uint32_t kind;
  std::uint8_t copy_kind, source_kind, target_kind, flags;
  std::uint64_t bytes, start, end;
  std::uint32_t device, context, stream, source_device, source_context, target_device,
      target_context, correlation;
  void* reserved;
  std::uint64_t graph_node;
  std::uint32_t graph, channel, channel_type;
};

struct Memset {  // CUpti_ActivityMemset4
  std::uint32_t kind, value;
  std::uint64_t bytes, start, end;
  std::uint32_t device, context, stream, correlation;
  std::uint16_t flags, memory_kind;
  std::uint32_t padding;
  void* reserved;
  std::uint64_t graph_node;
  std::uint32_t graph, channel, channel_type;
  std::uint8_t is_device_launched, padding_2[3];
};

struct Api {  // CUpti_ActivityAPI
  std::uint32_t kind, callback;
  std::uint64_t start, end;
  std::uint32_t process, thread, correlation, return_value;
};

struct Memory {  // CUpti_ActivityMemory4; Memory3 lacks the source
  std::uint32_t kind, operation, memory_kind, correlation;
  std::uint64_t address, bytes, timestamp, program_counter;
  std::uint32_t process, device, context, stream;
  const char* name;
  std::uint32_t is_async, padding;
  std::uint32_t pool_type, padding_2;
  std::uint64_t pool_address, pool_threshold, pool_size_or_process, pool_utilized;
  const char* source;
};

struct MemoryPool {  // CUpti_ActivityMemoryPool3; MemoryPool2 lacks the last 8
  std::uint32_t kind, operation, pool_type, correlation, process, device;
  std::uint64_t bytes_to_keep, address, size, threshold, timestamp, utilized;
  std::uint8_t is_managed, padding[7];
};

struct Synchronization {  // …Synchronization2
  std::uint32_t kind, type;
  std::uint64_t start, end;
  std::uint32_t correlation, context, stream, event;
  // Layout::has_sync_ids
  std::uint64_t event_sync;
  std::uint32_t return_value, padding;
};

struct CudaEvent {  // …CudaEvent2
  std::uint32_t kind, correlation, context, stream, event, padding;
  // Layout::has_sync_ids
  std::uint32_t device, padding_2;
  void* reserved;
  std::uint64_t timestamp, event_sync;
};

struct Overhead {  // …Overhead3
  std::uint32_t kind, overhead_kind, object_kind;
  std::uint32_t object[3];  ///< process, thread; or device, context, stream
  std::uint64_t start, end;
  // Layout::has_overhead_correlation
  std::uint32_t correlation, reserved;
  void* data;
};

struct Marker {  // …Marker2
  std::uint32_t kind, flags;
  std::uint64_t timestamp;
  std::uint32_t id, object_kind, object[3], padding;
  const char *name, *domain;
};

struct MarkerData {  // …MarkerData2
  std::uint32_t kind, flags, id, payload_kind;
  std::uint64_t payload;
  std::uint32_t color, category, domain, padding;
};

struct ExternalCorrelation {
  std::uint32_t kind, external_kind;
  std::uint64_t external;
  std::uint32_t correlation, reserved;
};

struct Name {
  std::uint32_t kind, object_kind, object[3], padding;
  const char* name;
};

struct GraphTrace {  // …GraphTrace2; GraphTrace lacks the last 8 bytes
  std::uint32_t kind, correlation;
  std::uint64_t start, end;
  std::uint32_t device, graph, context, stream;
  void* reserved;
  std::uint32_t end_device, end_context;
};

struct Device {  // …Device5; Device4 lacks the last 8 bytes
  std::uint32_t kind, flags;
  std::uint64_t memory_bandwidth, memory_bytes;
  std::uint32_t constant_memory, l2_cache, threads_per_warp, core_clock, copy_engines,
      multiprocessors, max_ipc, limits[13], compute_major, compute_minor, id, ecc;
  std::uint8_t uuid[16];
  const char* name;
  std::uint8_t is_visible, is_mig, reserved[6];
  std::uint32_t gpu_instance, compute_instance;
  std::uint8_t mig_uuid[16];
  std::uint32_t is_numa, numa;
};

struct Context {  // …Context3; that of CUDA 12 ends after null_stream
  std::uint32_t kind, id, device;
  std::uint16_t api, null_stream;
};

struct Stream {
  std::uint32_t kind, context, id, priority, flag, correlation;
};

static_assert(sizeof(Kernel) == 216 && sizeof(Memcpy) == 96 && sizeof(MemcpyPeer) == 96 &&
              sizeof(Memset) == 88 && sizeof(Api) == 40 && sizeof(Memory) == 128 &&
              sizeof(MemoryPool) == 80 && sizeof(Synchronization) == 56 &&
              sizeof(CudaEvent) == 56 && sizeof(Overhead) == 56 && sizeof(Marker) == 56 &&
              sizeof(MarkerData) == 40 && sizeof(ExternalCorrelation) == 24 && sizeof(Name) == 32 &&
              sizeof(GraphTrace) == 56 && sizeof(Device) == 184 && sizeof(Context) == 16 &&
              sizeof(Stream) == 24);
// Where the records of CUDA 12 end: Kernel9, Synchronization, CudaEvent, Overhead, Memory3.
static_assert(offsetof(Kernel, is_device_launched) == 208 &&
              offsetof(Synchronization, event_sync) == 40 && offsetof(CudaEvent, device) == 24 &&
              offsetof(Overhead, correlation) == 40 && offsetof(Memory, source) == 120);

// Results.
inline constexpr int kSuccess = 0, kMaxLimitReached = 12, kMultipleSubscribers = 39;

// Callback domains, for names of calls.
inline constexpr int kDriverDomain = 1, kRuntimeDomain = 2;

// Flags of markers.
inline constexpr std::uint32_t kMarkerInstant = 1, kMarkerStart = 2, kMarkerEnd = 4;

inline constexpr std::uint32_t kFlushForced = 1;
inline constexpr int kSystemThreadIds = 1;

using BufferRequested = void (*)(std::uint8_t** buffer, std::size_t* size,
                                 std::size_t* max_records);
using BufferCompleted = void (*)(void* context, std::uint32_t stream, std::uint8_t* buffer,
                                 std::size_t size, std::size_t valid);

using NextRecord = int (*)(std::uint8_t* buffer, std::size_t valid, Record** record);
using CallbackName = int (*)(int domain, std::uint32_t callback, const char** name);

}  // namespace foregather::profiler::cupti
