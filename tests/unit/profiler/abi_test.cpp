// Our declarations against the headers of CUDA 13.
#include <cupti.h>
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>

#include <cstddef>

#include <catch2/catch.hpp>

#include "profiler/cupti_abi.h"
#include "profiler/nvtx_abi.h"

namespace foregather::profiler {
namespace {

#define SAME(ours, field, theirs, name)                            \
  static_assert(offsetof(ours, field) == offsetof(theirs, name) && \
                sizeof(ours::field) == sizeof(theirs::name))

#if CUPTI_API_VERSION == 130001
static_assert(sizeof(cupti::Kernel) == sizeof(CUpti_ActivityKernel10));
static_assert(sizeof(cupti::Memcpy) == sizeof(CUpti_ActivityMemcpy6));
static_assert(sizeof(cupti::MemcpyPeer) == sizeof(CUpti_ActivityMemcpyPtoP4));
static_assert(sizeof(cupti::Memset) == sizeof(CUpti_ActivityMemset4));
static_assert(sizeof(cupti::Memory) == sizeof(CUpti_ActivityMemory4));
static_assert(sizeof(cupti::MemoryPool) == sizeof(CUpti_ActivityMemoryPool3));
static_assert(sizeof(cupti::Device) == sizeof(CUpti_ActivityDevice5));
static_assert(sizeof(cupti::GraphTrace) == sizeof(CUpti_ActivityGraphTrace2));
#endif
SAME(cupti::Kernel, start, CUpti_ActivityKernel10, start);
SAME(cupti::Kernel, end, CUpti_ActivityKernel10, end);
SAME(cupti::Kernel, registers_per_thread, CUpti_ActivityKernel10, registersPerThread);
SAME(cupti::Kernel, device, CUpti_ActivityKernel10, deviceId);
SAME(cupti::Kernel, context, CUpti_ActivityKernel10, contextId);
SAME(cupti::Kernel, stream, CUpti_ActivityKernel10, streamId);
SAME(cupti::Kernel, grid_x, CUpti_ActivityKernel10, gridX);
SAME(cupti::Kernel, block_z, CUpti_ActivityKernel10, blockZ);
SAME(cupti::Kernel, static_shared_memory, CUpti_ActivityKernel10, staticSharedMemory);
SAME(cupti::Kernel, local_memory_per_thread, CUpti_ActivityKernel10, localMemoryPerThread);
SAME(cupti::Kernel, correlation, CUpti_ActivityKernel10, correlationId);
SAME(cupti::Kernel, grid_id, CUpti_ActivityKernel10, gridId);
SAME(cupti::Kernel, name, CUpti_ActivityKernel10, name);
SAME(cupti::Kernel, launch_type, CUpti_ActivityKernel10, launchType);
SAME(cupti::Kernel, graph_node, CUpti_ActivityKernel10, graphNodeId);
SAME(cupti::Kernel, graph, CUpti_ActivityKernel10, graphId);
SAME(cupti::Kernel, cluster_x, CUpti_ActivityKernel10, clusterX);
SAME(cupti::Kernel, local_memory_total_64, CUpti_ActivityKernel10, localMemoryTotal_v2);
SAME(cupti::Memcpy, copy_kind, CUpti_ActivityMemcpy6, copyKind);
SAME(cupti::Memcpy, bytes, CUpti_ActivityMemcpy6, bytes);
SAME(cupti::Memcpy, correlation, CUpti_ActivityMemcpy6, correlationId);
SAME(cupti::Memcpy, graph_node, CUpti_ActivityMemcpy6, graphNodeId);
SAME(cupti::MemcpyPeer, source_device, CUpti_ActivityMemcpyPtoP4, srcDeviceId);
SAME(cupti::MemcpyPeer, correlation, CUpti_ActivityMemcpyPtoP4, correlationId);
SAME(cupti::MemcpyPeer, graph_node, CUpti_ActivityMemcpyPtoP4, graphNodeId);
SAME(cupti::Memset, value, CUpti_ActivityMemset4, value);
SAME(cupti::Memset, memory_kind, CUpti_ActivityMemset4, memoryKind);
SAME(cupti::Memset, graph_node, CUpti_ActivityMemset4, graphNodeId);
SAME(cupti::Api, callback, CUpti_ActivityAPI, cbid);
SAME(cupti::Api, thread, CUpti_ActivityAPI, threadId);
SAME(cupti::Api, correlation, CUpti_ActivityAPI, correlationId);
SAME(cupti::Api, return_value, CUpti_ActivityAPI, returnValue);
SAME(cupti::Memory, operation, CUpti_ActivityMemory4, memoryOperationType);
SAME(cupti::Memory, program_counter, CUpti_ActivityMemory4, PC);
SAME(cupti::Memory, name, CUpti_ActivityMemory4, name);
SAME(cupti::Memory, pool_type, CUpti_ActivityMemory4, memoryPoolConfig.memoryPoolType);
SAME(cupti::Memory, pool_utilized, CUpti_ActivityMemory4, memoryPoolConfig.utilizedSize);
SAME(cupti::MemoryPool, bytes_to_keep, CUpti_ActivityMemoryPool3, minBytesToKeep);
SAME(cupti::MemoryPool, timestamp, CUpti_ActivityMemoryPool3, timestamp);
SAME(cupti::MemoryPool, utilized, CUpti_ActivityMemoryPool3, utilizedSize);
SAME(cupti::Synchronization, event, CUpti_ActivitySynchronization2, cudaEventId);
SAME(cupti::Synchronization, event_sync, CUpti_ActivitySynchronization2, cudaEventSyncId);
SAME(cupti::CudaEvent, device, CUpti_ActivityCudaEvent2, deviceId);
SAME(cupti::CudaEvent, event_sync, CUpti_ActivityCudaEvent2, cudaEventSyncId);
SAME(cupti::Overhead, object, CUpti_ActivityOverhead3, objectId);
SAME(cupti::Overhead, correlation, CUpti_ActivityOverhead3, correlationId);
SAME(cupti::Marker, id, CUpti_ActivityMarker2, id);
SAME(cupti::Marker, object, CUpti_ActivityMarker2, objectId);
SAME(cupti::Marker, name, CUpti_ActivityMarker2, name);
SAME(cupti::MarkerData, color, CUpti_ActivityMarkerData2, color);
SAME(cupti::ExternalCorrelation, external, CUpti_ActivityExternalCorrelation, externalId);
SAME(cupti::ExternalCorrelation, correlation, CUpti_ActivityExternalCorrelation, correlationId);
SAME(cupti::Name, name, CUpti_ActivityName, name);
SAME(cupti::GraphTrace, graph, CUpti_ActivityGraphTrace2, graphId);
SAME(cupti::GraphTrace, stream, CUpti_ActivityGraphTrace2, streamId);
SAME(cupti::Device, multiprocessors, CUpti_ActivityDevice5, numMultiprocessors);
SAME(cupti::Device, compute_major, CUpti_ActivityDevice5, computeCapabilityMajor);
SAME(cupti::Device, id, CUpti_ActivityDevice5, id);
SAME(cupti::Device, name, CUpti_ActivityDevice5, name);
SAME(cupti::Context, null_stream, CUpti_ActivityContext3, nullStreamId);
SAME(cupti::Stream, flag, CUpti_ActivityStream, flag);
// The records of CUDA 12 are beginnings of these.
static_assert(sizeof(CUpti_ActivityKernel9) == 208 && sizeof(CUpti_ActivityMemory3) == 120 &&
              sizeof(CUpti_ActivitySynchronization) == 40 &&
              sizeof(CUpti_ActivityCudaEvent) == 24 && sizeof(CUpti_ActivityOverhead) == 40);
SAME(cupti::Kernel, cluster_x, CUpti_ActivityKernel9, clusterX);
SAME(cupti::Kernel, local_memory_total_64, CUpti_ActivityKernel9, localMemoryTotal_v2);
SAME(cupti::Synchronization, event, CUpti_ActivitySynchronization, cudaEventId);
SAME(cupti::CudaEvent, event, CUpti_ActivityCudaEvent, eventId);
static_assert(+cupti::kMemory2 == +CUPTI_ACTIVITY_KIND_MEMORY2 &&
              +cupti::kMemoryPool == +CUPTI_ACTIVITY_KIND_MEMORY_POOL &&
              +cupti::kGraphTrace == +CUPTI_ACTIVITY_KIND_GRAPH_TRACE &&
              +cupti::kSynchronization == +CUPTI_ACTIVITY_KIND_SYNCHRONIZATION &&
              cupti::kMaxLimitReached == CUPTI_ERROR_MAX_LIMIT_REACHED &&
              cupti::kMultipleSubscribers == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED &&
              cupti::kFlushForced == CUPTI_ACTIVITY_FLAG_FLUSH_FORCED &&
              cupti::kSystemThreadIds == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM &&
              cupti::kMarkerStart == CUPTI_ACTIVITY_FLAG_MARKER_START &&
              cupti::kDriverDomain == CUPTI_CB_DOMAIN_DRIVER_API &&
              cupti::kRuntimeDomain == CUPTI_CB_DOMAIN_RUNTIME_API);

SAME(nvtx::Attributes, category, nvtxEventAttributes_t, category);
SAME(nvtx::Attributes, color, nvtxEventAttributes_t, color);
SAME(nvtx::Attributes, payload_type, nvtxEventAttributes_t, payloadType);
SAME(nvtx::Attributes, reserved, nvtxEventAttributes_t, reserved0);
SAME(nvtx::Attributes, payload, nvtxEventAttributes_t, payload);
SAME(nvtx::Attributes, message_type, nvtxEventAttributes_t, messageType);
SAME(nvtx::Attributes, message, nvtxEventAttributes_t, message);
static_assert(sizeof(nvtx::Attributes) == sizeof(nvtxEventAttributes_t));
static_assert(sizeof(nvtx::PayloadData) == sizeof(nvtxPayloadData_t) &&
              sizeof(nvtx::Schema) == sizeof(nvtxPayloadSchemaAttr_t) &&
              sizeof(nvtx::SchemaEntry) == sizeof(nvtxPayloadSchemaEntry_t) &&
              sizeof(nvtx::ModuleInfo) == sizeof(nvtxExtModuleInfo_t) &&
              sizeof(nvtx::Segment) == sizeof(nvtxExtModuleSegment_t) &&
              sizeof(nvtx::CallbackTables) == sizeof(NvtxExportTableCallbacks));
SAME(nvtx::Schema, static_size, nvtxPayloadSchemaAttr_t, payloadStaticSize);
SAME(nvtx::Schema, id, nvtxPayloadSchemaAttr_t, schemaId);
static_assert(nvtx::kExtended == NVTX_PAYLOAD_TYPE_EXT &&
              nvtx::kHasId == NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID &&
              nvtx::kHasEntries == NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES &&
              nvtx::kPayloadModule == NVTX_EXT_PAYLOAD_MODULEID &&
              nvtx::kPopPayload == NVTX3EXT_CBID_nvtxRangePopPayload);
static_assert(+nvtx::kRangePop == +NVTX_CBID_CORE_RangePop &&
              +nvtx::kNameOsThreadA == +NVTX_CBID_CORE_NameOsThreadA &&
              +nvtx::kDomainCreateW == +NVTX_CBID_CORE2_DomainCreateW &&
              +nvtx::kDomainRegisterStringA == +NVTX_CBID_CORE2_DomainRegisterStringA);

TEST_CASE("abi: layouts by version say which fields a record has") {
  CHECK_FALSE(cupti::Layout::of(19).has_overhead_correlation);
  CHECK(cupti::Layout::of(20).has_overhead_correlation);
  CHECK_FALSE(cupti::Layout::of(24).has_sync_ids);
  CHECK(cupti::Layout::of(130001).has_sync_ids);
}

}  // namespace
}  // namespace foregather::profiler
