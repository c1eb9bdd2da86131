// Buffers of the real structs of CUDA 13, walked by the real cuptiActivityGetNextRecord: it needs
// no driver.
#include "profiler/cupti_decoder.h"

#include <cupti.h>
#include <dlfcn.h>

#include <cstring>

#include <catch2/catch.hpp>

#include "tests/support/skip.h"
#include "tests/unit/profiler/raw.h"
#include "traces/nsys.h"

namespace foregather::profiler {
namespace {

using test::query;
using Rows = std::vector<std::vector<std::string>>;

constexpr std::uint64_t kBegin = test::RawScratch::kEpoch;

void* cupti_library() {
  static void* const library = [] {
    void* const built = ::dlopen(FOREGATHER_CUPTI_FOLDER "/libcupti.so.13", RTLD_NOW | RTLD_LOCAL);
    return built != nullptr ? built : ::dlopen("libcupti.so.13", RTLD_NOW | RTLD_LOCAL);
  }();
  return library;
}

template <class F>
F function(const char* name) {
  return reinterpret_cast<F>(::dlsym(cupti_library(), name));
}

/// A buffer record by record.
struct Buffer {
  template <class Record>
  Buffer& add(const Record& record) {
    const auto* const from = reinterpret_cast<const std::uint8_t*>(&record);
    bytes.insert(bytes.end(), from, from + sizeof record);
    return *this;
  }
  alignas(8) std::vector<std::uint8_t> bytes;
};

/// Decodes what is given to it; rows can be asked for once finish() was called.
struct Decoding {
  explicit Decoding(Settings settings = {}, std::uint32_t version = CUPTI_API_VERSION)
      : window(settings),
        decoder(
            *raw.file, window,
            {cupti::Layout::of(version), function<cupti::NextRecord>("cuptiActivityGetNextRecord"),
             function<cupti::CallbackName>("cuptiGetCallbackName")},
            42) {}
  void decode(Buffer buffer) { decoder.decode(buffer.bytes.data(), buffer.bytes.size()); }
  void finish() {
    decoder.finish();
    REQUIRE(raw.file->finish());
  }
  Rows rows(const std::string& sql) { return query(raw.path, sql); }
  std::string count(const std::string& reason) {
    const Rows found = rows("SELECT records FROM FOREGATHER_COUNT WHERE reason = '" + reason + "'");
    return found.empty() ? "0" : found.front().front();
  }

  test::RawScratch raw;
  RecordedWindow window;
  CuptiDecoder decoder;
};

CUpti_ActivityKernel10 kernel(std::uint64_t start, std::uint64_t end, std::uint32_t correlation) {
  CUpti_ActivityKernel10 record{};
  record.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  record.start = start == 0 ? 0 : kBegin + start;
  record.end = end == 0 ? 0 : kBegin + end;
  record.deviceId = 1;
  record.contextId = 2;
  record.streamId = 7;
  record.correlationId = correlation;
  record.name = "_Z3addPfS_i";
  record.registersPerThread = 32;
  record.gridX = 10, record.gridY = 2, record.gridZ = 1;
  record.blockX = 128, record.blockY = 1, record.blockZ = 1;
  record.dynamicSharedMemory = 1024;
  record.localMemoryTotal_v2 = 5'000'000'000;
  record.gridId = 77;
  record.launchType = CUPTI_ACTIVITY_LAUNCH_TYPE_COOPERATIVE_SINGLE_DEVICE;
  record.graphNodeId = 9;
  record.clusterX = 2, record.clusterY = 1, record.clusterZ = 1;
  return record;
}

CUpti_ActivityAPI call(CUpti_ActivityKind kind, std::uint32_t callback, std::uint32_t correlation) {
  CUpti_ActivityAPI record{};
  record.kind = kind;
  record.cbid = callback;
  record.start = kBegin + 10;
  record.end = kBegin + 20;
  record.processId = 42;
  record.threadId = 43;
  record.correlationId = correlation;
  record.returnValue = 2;
  return record;
}

#define NEEDS_CUPTI() \
  if (cupti_library() == nullptr) FOREGATHER_SKIP("libcupti.so.13 cannot be opened")

TEST_CASE("cupti: a kernel becomes a row of Nsight Systems'") {
  NEEDS_CUPTI();
  Decoding decoding;
  decoding.decode(Buffer().add(kernel(1000, 3000, 5)));
  decoding.finish();
  CHECK(decoding.rows("SELECT start, end, deviceId, contextId, streamId, correlationId, globalPid, "
                      "launchType, registersPerThread, gridX, blockX, dynamicSharedMemory, "
                      "localMemoryTotal, gridId, graphNodeId, graphId, clusterX "
                      "FROM CUPTI_ACTIVITY_KIND_KERNEL") ==
        Rows{{"1000", "3000", "1", "2", "7", "5", std::to_string(42 << 24), "2", "32", "10", "128",
              "1024", "5000000000", "77", "9", "-", "2"}});
  CHECK(decoding.rows("SELECT d.value, s.value, m.value FROM CUPTI_ACTIVITY_KIND_KERNEL k "
                      "JOIN StringIds d ON d.id = demangledName JOIN StringIds s ON s.id = "
                      "shortName JOIN StringIds m ON m.id = mangledName") ==
        Rows{{"add(float*, float*, int)", "add", "_Z3addPfS_i"}});
}

TEST_CASE("cupti: copies within, between devices, and fills have Nsight Systems' memory kinds") {
  NEEDS_CUPTI();
  CUpti_ActivityMemcpy6 copy{};
  copy.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  copy.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
  copy.srcKind = CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
  copy.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  copy.bytes = 4096;
  copy.start = kBegin + 1, copy.end = kBegin + 2;
  copy.streamId = 7, copy.correlationId = 8;
  CUpti_ActivityMemcpyPtoP4 peer{};
  peer.kind = CUPTI_ACTIVITY_KIND_MEMCPY2;
  peer.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  peer.bytes = 8192;
  peer.start = kBegin + 3, peer.end = kBegin + 4;
  peer.srcDeviceId = 1, peer.dstDeviceId = 2, peer.correlationId = 9;
  CUpti_ActivityMemset4 fill{};
  fill.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  fill.value = 255;
  fill.bytes = 64;
  fill.start = kBegin + 5, fill.end = kBegin + 6;
  fill.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_MANAGED;
  Decoding decoding;
  decoding.decode(Buffer().add(copy).add(peer).add(fill));
  decoding.finish();
  CHECK(decoding.rows("SELECT start, bytes, copyKind, srcKind, dstKind, srcDeviceId, dstDeviceId, "
                      "correlationId FROM CUPTI_ACTIVITY_KIND_MEMCPY ORDER BY start") ==
        Rows{{"1", "4096", "1", "1", "2", "-", "-", "8"},
             {"3", "8192", "10", "7", "7", "1", "2", "9"}});
  CHECK(decoding.rows("SELECT value, bytes, memKind FROM CUPTI_ACTIVITY_KIND_MEMSET") ==
        Rows{{"255", "64", "4"}});
}

TEST_CASE("cupti: calls of the runtime and of the driver share a table, by name") {
  NEEDS_CUPTI();
  Decoding decoding;
  decoding.decode(
      Buffer()
          .add(
              call(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, 5))
          .add(call(CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, 5)));
  decoding.finish();
  CHECK(decoding.rows("SELECT start, end, eventClass, globalTid, correlationId, returnValue, value "
                      "FROM CUPTI_ACTIVITY_KIND_RUNTIME JOIN StringIds ON id = nameId") ==
        Rows{{"10", "20", "0", std::to_string(42 << 24 | 43), "5", "2", "cudaLaunchKernel_v7000"},
             {"10", "20", "1", std::to_string(42 << 24 | 43), "5", "2", "cuLaunchKernel"}});
}

TEST_CASE("cupti: a synchronisation waits until something says which device its context is of") {
  NEEDS_CUPTI();
  CUpti_ActivitySynchronization2 sync{};
  sync.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  sync.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT;
  sync.start = kBegin + 1, sync.end = kBegin + 2;
  sync.contextId = 2, sync.streamId = 7, sync.cudaEventId = 3, sync.cudaEventSyncId = 4;
  CUpti_ActivityCudaEvent2 event{};
  event.kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT;
  event.contextId = 3, event.deviceId = 5, event.streamId = 8;
  event.eventId = 3, event.cudaEventSyncId = 4, event.correlationId = 6;
  CUpti_ActivitySynchronization2 lost = sync;
  lost.contextId = 99;
  Decoding decoding;
  decoding.decode(Buffer().add(sync).add(event).add(lost));
  CUpti_ActivityContext3 context{};
  context.kind = CUPTI_ACTIVITY_KIND_CONTEXT;
  context.contextId = 2, context.deviceId = 1;
  decoding.decode(Buffer().add(context));  // in a later buffer
  decoding.finish();
  CHECK(decoding.rows("SELECT deviceId, contextId, streamId, syncType, eventId, eventSyncId "
                      "FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION") ==
        Rows{{"1", "2", "7", "2", "3", "4"}});
  CHECK(decoding.rows("SELECT timestamp, deviceId, streamId, eventId, eventSyncId, correlationId "
                      "FROM CUPTI_ACTIVITY_KIND_CUDA_EVENT") ==
        Rows{{"-", "5", "8", "3", "4", "6"}});
  CHECK(decoding.count("context_without_device") == "1");
}

TEST_CASE("cupti: memory of the driver and its pools") {
  NEEDS_CUPTI();
  CUpti_ActivityMemory4 memory{};
  memory.kind = CUPTI_ACTIVITY_KIND_MEMORY2;
  memory.memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE;
  memory.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  memory.address = 0x7f0000000000;
  memory.bytes = 1 << 20;
  memory.timestamp = kBegin + 9;
  memory.memoryPoolConfig.memoryPoolType = CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL;
  memory.memoryPoolConfig.pool.size = 123;
  CUpti_ActivityMemoryPool3 pool{};
  pool.kind = CUPTI_ACTIVITY_KIND_MEMORY_POOL;
  pool.memoryPoolOperationType = CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_TRIMMED;
  pool.memoryPoolType = CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL;
  pool.timestamp = kBegin + 11;
  pool.minBytesToKeep = 17;
  pool.size = 19;
  Decoding decoding;
  decoding.decode(Buffer().add(memory).add(pool));
  decoding.finish();
  CHECK(decoding.rows("SELECT start, address, bytes, memKind, memoryOperationType, "
                      "localMemoryPoolSize, importedMemoryPoolProcessId "
                      "FROM CUDA_GPU_MEMORY_USAGE_EVENTS") ==
        Rows{{"9", "139637976727552", "1048576", "2", "1", "123", "-"}});
  CHECK(decoding.rows("SELECT start, operationType, poolType, minBytesToKeep, localMemoryPoolSize "
                      "FROM CUDA_GPU_MEMORY_POOL_EVENTS") == Rows{{"11", "3", "1", "17", "19"}});
}

TEST_CASE("cupti: overhead, graphs, markers, names, devices, streams, external ids") {
  NEEDS_CUPTI();
  CUpti_ActivityOverhead3 overhead{};
  overhead.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  overhead.overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION;
  overhead.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  overhead.objectId.pt.processId = 42, overhead.objectId.pt.threadId = 43;
  overhead.start = kBegin + 1, overhead.end = kBegin + 2;
  CUpti_ActivityGraphTrace2 graph{};
  graph.kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
  graph.start = kBegin + 3, graph.end = kBegin + 4;
  graph.graphId = 12, graph.streamId = 7;
  CUpti_ActivityMarker2 begin{}, end{}, instant{};
  begin.kind = end.kind = instant.kind = CUPTI_ACTIVITY_KIND_MARKER;
  begin.flags = CUPTI_ACTIVITY_FLAG_MARKER_START;
  begin.timestamp = kBegin + 5;
  begin.id = end.id = 21;
  begin.name = "forward";
  end.flags = CUPTI_ACTIVITY_FLAG_MARKER_END;
  end.timestamp = kBegin + 6;
  instant.flags = CUPTI_ACTIVITY_FLAG_MARKER_INSTANTANEOUS;
  instant.timestamp = kBegin + 7;
  instant.name = "now";
  CUpti_ActivityMarkerData2 data{};
  data.kind = CUPTI_ACTIVITY_KIND_MARKER_DATA;
  data.id = 21, data.color = 0xff00ff;
  CUpti_ActivityName name{};
  name.kind = CUPTI_ACTIVITY_KIND_NAME;
  name.objectKind = CUPTI_ACTIVITY_OBJECT_DEVICE;
  name.name = "the first";
  CUpti_ActivityDevice5 device{};
  device.kind = CUPTI_ACTIVITY_KIND_DEVICE;
  device.id = 1, device.name = "NVIDIA H100", device.numMultiprocessors = 132;
  device.computeCapabilityMajor = 9, device.globalMemorySize = 80;
  CUpti_ActivityStream stream{};
  stream.kind = CUPTI_ACTIVITY_KIND_STREAM;
  stream.streamId = 7, stream.contextId = 2, stream.priority = static_cast<std::uint32_t>(-1);
  CUpti_ActivityExternalCorrelation external{};
  external.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  external.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
  external.externalId = 99, external.correlationId = 5;
  Decoding decoding;
  decoding.decode(Buffer()
                      .add(overhead)
                      .add(graph)
                      .add(begin)
                      .add(end)
                      .add(instant)
                      .add(data)
                      .add(name)
                      .add(device)
                      .add(stream)
                      .add(external));
  decoding.finish();
  CHECK(decoding.rows("SELECT start, globalTid, overheadType, value FROM "
                      "CUPTI_ACTIVITY_KIND_OVERHEAD JOIN StringIds ON id = nameId") ==
        Rows{{"1", std::to_string(42 << 24 | 43), "4", "Instrumentation"}});
  CHECK(decoding.rows("SELECT start, end, graphExecId FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE") ==
        Rows{{"3", "4", "12"}});
  CHECK(decoding.rows("SELECT start, end, eventType, value FROM NVTX_EVENTS JOIN StringIds ON id = "
                      "textId ORDER BY start") ==
        Rows{{"5", "6", "60", "forward"}, {"7", "-", "34", "now"}});
  CHECK(decoding.rows("SELECT markerId, color FROM FOREGATHER_MARKER_DATA") ==
        Rows{{"21", "16711935"}});
  CHECK(decoding.rows("SELECT objectKind, value FROM FOREGATHER_OBJECT_NAME JOIN StringIds ON "
                      "StringIds.id = nameId") == Rows{{"3", "the first"}});
  CHECK(decoding.rows("SELECT id, name, smCount, computeMajor FROM TARGET_INFO_GPU") ==
        Rows{{"1", "NVIDIA H100", "132", "9"}});
  CHECK(decoding.rows("SELECT streamId, contextId, priority FROM TARGET_INFO_CUDA_STREAM") ==
        Rows{{"7", "2", "-1"}});
  CHECK(decoding.rows("SELECT correlationId, externalKind, externalId FROM "
                      "FOREGATHER_EXTERNAL_CORRELATION") == Rows{{"5", "3", "99"}});
}

// kineto #109, nvidia-resiliency-ext #115: kernels without times; Kineto's own counts of what ends
// before it starts; CUPTI's forced flush of what still runs.
TEST_CASE("cupti: work without a time, without an end, or that ends before it starts is counted") {
  NEEDS_CUPTI();
  Decoding decoding;
  decoding.decode(Buffer()
                      .add(kernel(0, 0, 1))
                      .add(kernel(10, 0, 2))
                      .add(kernel(20, 10, 3))
                      .add(kernel(30, 30, 4)));  // as short as the clock shows
  decoding.finish();
  CHECK(decoding.rows("SELECT correlationId FROM CUPTI_ACTIVITY_KIND_KERNEL") == Rows{{"4"}});
  CHECK(decoding.count("without_time: kernel") == "1");
  CHECK(decoding.count("without_end: kernel") == "1");
  CHECK(decoding.count("ends_before_start: kernel") == "1");
}

TEST_CASE("cupti: what lies outside the window is left out, and counted") {
  NEEDS_CUPTI();
  Settings settings;
  settings.delay = 100;
  settings.duration = 100;
  Decoding decoding(settings);
  decoding.decode(
      Buffer().add(kernel(99, 150, 1)).add(kernel(150, 250, 2)).add(kernel(200, 210, 3)));
  decoding.finish();
  CHECK(decoding.rows("SELECT correlationId FROM CUPTI_ACTIVITY_KIND_KERNEL") == Rows{{"2"}});
  CHECK(decoding.count("outside_window") == "2");
  CHECK(decoding.raw.file->dropped() == 0);
}

// kineto #1354: metadata was lost because records come in any order.
TEST_CASE("cupti: the order of records does not matter") {
  NEEDS_CUPTI();
  const auto launch = call(CUPTI_ACTIVITY_KIND_RUNTIME, 211, 5);
  const auto work = kernel(30, 40, 5);
  const auto recording = [&](const Buffer& first, const Buffer& second) {
    Decoding decoding;
    decoding.decode(first);
    decoding.decode(second);
    decoding.finish();
    const auto trace = traces::read_nsys(decoding.raw.path);
    REQUIRE(trace);
    REQUIRE(trace->recording.activities.size() == 1);
    REQUIRE(trace->recording.calls.size() == 1);
    CHECK(trace->recording.activities.correlation[0] == trace->recording.calls.correlation[0]);
    CHECK(trace->recording.activities.start[0] == 30);
    CHECK(trace->recording.activities.threads[0] == 10 * 2 * 128);
    CHECK(trace->recording.base == static_cast<Ns>(kBegin));
  };
  recording(Buffer().add(launch).add(work), Buffer());
  recording(Buffer().add(work), Buffer().add(launch));
}

TEST_CASE("cupti: records of other kinds are counted, and so is a damaged buffer") {
  NEEDS_CUPTI();
  CUpti_ActivityJit2 jit{};
  jit.kind = CUPTI_ACTIVITY_KIND_JIT;
  Decoding decoding;
  decoding.decode(Buffer().add(jit).add(kernel(1, 2, 1)));
  Buffer damaged;
  const std::uint64_t no_kind = 0xdeadbeef;
  damaged.add(kernel(3, 4, 2)).add(no_kind);
  decoding.decode(damaged);
  decoding.finish();
  CHECK(decoding.count("record_of_kind_52") == "1");
  CHECK(decoding.rows("SELECT correlationId FROM CUPTI_ACTIVITY_KIND_KERNEL") ==
        Rows{{"1"}, {"2"}});
  CHECK(decoding.count("damaged_buffer") == "1");
}

// Layouts of CUDA 12 end earlier: what lies behind them is the next record.
TEST_CASE("cupti: records of CUDA 12.0 are read as far as they go") {
  const auto next = [](std::uint8_t* buffer, std::size_t valid, cupti::Record** record) {
    const auto size_of = [](const cupti::Record& of) {
      return of.kind == cupti::kSynchronization ? sizeof(CUpti_ActivitySynchronization)
             : of.kind == cupti::kOverhead      ? sizeof(CUpti_ActivityOverhead)
             : of.kind == cupti::kCudaEvent     ? sizeof(CUpti_ActivityCudaEvent)
                                                : sizeof(CUpti_ActivityKernel9);
    };
    std::uint8_t* const at =
        *record == nullptr ? buffer : reinterpret_cast<std::uint8_t*>(*record) + size_of(**record);
    if (at >= buffer + valid) return cupti::kMaxLimitReached;
    *record = reinterpret_cast<cupti::Record*>(at);
    return cupti::kSuccess;
  };
  CUpti_ActivitySynchronization sync{};
  sync.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  sync.start = kBegin + 1, sync.end = kBegin + 2, sync.contextId = 2, sync.cudaEventId = 3;
  CUpti_ActivityCudaEvent event{};
  event.kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT;
  event.contextId = 2, event.eventId = 3, event.correlationId = 6;
  CUpti_ActivityOverhead overhead{};
  overhead.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  overhead.overheadKind = CUPTI_ACTIVITY_OVERHEAD_DRIVER_COMPILER;
  overhead.start = kBegin + 1, overhead.end = kBegin + 2;
  CUpti_ActivityKernel9 work{};
  const CUpti_ActivityKernel10 now = kernel(5, 6, 1);
  std::memcpy(&work, &now, sizeof work);
  test::RawScratch raw;
  const RecordedWindow window{Settings()};
  CuptiDecoder decoder(*raw.file, window, {cupti::Layout::of(19), next, nullptr}, 42);
  Buffer buffer;
  buffer.add(sync).add(event).add(overhead).add(work);
  decoder.decode(buffer.bytes.data(), buffer.bytes.size());
  decoder.finish();
  REQUIRE(raw.file->finish());
  CHECK(query(raw.path,
              "SELECT deviceId, eventId, eventSyncId FROM "
              "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION") == Rows{{"1", "3", "-"}});
  CHECK(query(raw.path,
              "SELECT deviceId, eventId, eventSyncId, timestamp FROM "
              "CUPTI_ACTIVITY_KIND_CUDA_EVENT") == Rows{{"1", "3", "-", "-"}});
  CHECK(query(raw.path, "SELECT correlationId, overheadType FROM CUPTI_ACTIVITY_KIND_OVERHEAD") ==
        Rows{{"-", "2"}});
  CHECK(query(raw.path, "SELECT start, clusterX FROM CUPTI_ACTIVITY_KIND_KERNEL") ==
        Rows{{"5", "2"}});
}

}  // namespace
}  // namespace foregather::profiler
