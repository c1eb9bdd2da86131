#include "profiler/raw_tables.h"

#include <algorithm>

namespace foregather::profiler {
namespace {

constexpr RawTableSpec table(std::string_view name, std::string_view columns) {
  return {name, columns,
          static_cast<std::size_t>(std::count(columns.begin(), columns.end(), ',')) + 1};
}

// In the order of RawTable. Only events with a payload have an eventId.
constexpr std::array<RawTableSpec, kRawTables> kSpecs{
    table("CUPTI_ACTIVITY_KIND_KERNEL",
          "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, "
          "contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, "
          "globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, "
          "mangledName INTEGER, launchType INTEGER, registersPerThread INTEGER NOT NULL, "
          "gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, "
          "blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL, "
          "staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL, "
          "localMemoryPerThread INTEGER NOT NULL, localMemoryTotal INTEGER NOT NULL, "
          "gridId INTEGER NOT NULL, graphNodeId INTEGER, graphId INTEGER, clusterX INTEGER, "
          "clusterY INTEGER, clusterZ INTEGER"),
    table("CUPTI_ACTIVITY_KIND_MEMCPY",
          "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, "
          "contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, "
          "globalPid INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, "
          "srcKind INTEGER, dstKind INTEGER, srcDeviceId INTEGER, srcContextId INTEGER, "
          "dstDeviceId INTEGER, dstContextId INTEGER, graphNodeId INTEGER, copyCount INTEGER"),
    table("CUPTI_ACTIVITY_KIND_MEMSET",
          "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, "
          "contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, "
          "globalPid INTEGER, value INTEGER NOT NULL, bytes INTEGER NOT NULL, "
          "graphNodeId INTEGER, memKind INTEGER"),
    table("CUPTI_ACTIVITY_KIND_RUNTIME",
          "start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, "
          "globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, "
          "returnValue INTEGER NOT NULL"),
    table("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
          "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, "
          "contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, "
          "globalPid INTEGER, syncType INTEGER NOT NULL, eventId INTEGER NOT NULL, "
          "eventSyncId INTEGER"),
    table("CUPTI_ACTIVITY_KIND_CUDA_EVENT",
          "timestamp INTEGER, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, "
          "streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, "
          "eventId INTEGER NOT NULL, eventSyncId INTEGER"),
    table("CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
          "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, "
          "contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, "
          "globalPid INTEGER, graphId INTEGER, graphExecId INTEGER NOT NULL"),
    table("CUPTI_ACTIVITY_KIND_OVERHEAD",
          "start INTEGER NOT NULL, end INTEGER NOT NULL, globalTid INTEGER, "
          "correlationId INTEGER, nameId INTEGER, overheadType INTEGER NOT NULL"),
    table("CUDA_GPU_MEMORY_USAGE_EVENTS",
          "start INTEGER NOT NULL, globalPid INTEGER NOT NULL, deviceId INTEGER NOT NULL, "
          "contextId INTEGER NOT NULL, address INTEGER NOT NULL, pc INTEGER NOT NULL, "
          "bytes INTEGER NOT NULL, memKind INTEGER NOT NULL, "
          "memoryOperationType INTEGER NOT NULL, name INTEGER, correlationId INTEGER, "
          "streamId INTEGER, localMemoryPoolAddress INTEGER, "
          "localMemoryPoolReleaseThreshold INTEGER, localMemoryPoolSize INTEGER, "
          "localMemoryPoolUtilizedSize INTEGER, importedMemoryPoolAddress INTEGER, "
          "importedMemoryPoolProcessId INTEGER"),
    table("CUDA_GPU_MEMORY_POOL_EVENTS",
          "start INTEGER NOT NULL, globalPid INTEGER NOT NULL, deviceId INTEGER NOT NULL, "
          "address INTEGER NOT NULL, operationType INTEGER NOT NULL, poolType INTEGER NOT NULL, "
          "correlationId INTEGER, minBytesToKeep INTEGER, "
          "localMemoryPoolReleaseThreshold INTEGER, localMemoryPoolSize INTEGER, "
          "localMemoryPoolUtilizedSize INTEGER"),
    table("NVTX_EVENTS",
          "start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, "
          "category INTEGER, color INTEGER, globalTid INTEGER, endGlobalTid INTEGER, "
          "textId INTEGER, domainId INTEGER, uint64Value INTEGER, int64Value INTEGER, "
          "eventId INTEGER"),
    table("ThreadNames", "nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER"),
    table("TARGET_INFO_CUDA_CONTEXT_INFO",
          "nullStreamId INTEGER NOT NULL, contextId INTEGER NOT NULL, deviceId INTEGER NOT NULL, "
          "processId INTEGER NOT NULL, parentContextId INTEGER, isGreenContext INTEGER"),
    table("TARGET_INFO_CUDA_STREAM",
          "streamId INTEGER NOT NULL, processId INTEGER NOT NULL, contextId INTEGER NOT NULL, "
          "priority INTEGER NOT NULL, flag INTEGER NOT NULL"),
    table("FOREGATHER_EXTERNAL_CORRELATION",
          "globalPid INTEGER, correlationId INTEGER, externalKind INTEGER, externalId INTEGER"),
    table("FOREGATHER_MARKER_DATA",
          "markerId INTEGER, color INTEGER, category INTEGER, "
          "payloadKind INTEGER, payload INTEGER"),
    table("FOREGATHER_OBJECT_NAME",
          "objectKind INTEGER, processId INTEGER, objectId INTEGER, nameId INTEGER"),
    table("FOREGATHER_NCCL_COMMUNICATOR",
          "communicator INTEGER, nameId INTEGER, nodes INTEGER, "
          "ranks INTEGER, rank INTEGER"),
    table("FOREGATHER_NCCL_CALL",
          "id INTEGER, parent INTEGER, type INTEGER, start INTEGER, end INTEGER, "
          "globalTid INTEGER, nameId INTEGER, count INTEGER, datatypeId INTEGER, peer INTEGER, "
          "stream INTEGER, depth INTEGER, captured INTEGER"),
    table("FOREGATHER_NCCL_COLLECTIVE",
          "id INTEGER, parent INTEGER, start INTEGER, enqueued INTEGER, globalTid INTEGER, "
          "communicator INTEGER, sequence INTEGER, nameId INTEGER, count INTEGER, "
          "datatypeId INTEGER, root INTEGER, algorithmId INTEGER, protocolId INTEGER, "
          "channels INTEGER, warps INTEGER"),
    table("FOREGATHER_NCCL_P2P",
          "id INTEGER, parent INTEGER, start INTEGER, enqueued INTEGER, globalTid INTEGER, "
          "communicator INTEGER, nameId INTEGER, count INTEGER, datatypeId INTEGER, "
          "peer INTEGER, channels INTEGER"),
    table("FOREGATHER_NCCL_PROXY",
          "id INTEGER, parent INTEGER, start INTEGER, end INTEGER, globalTid INTEGER, "
          "ownerPid INTEGER, channel INTEGER, peer INTEGER, steps INTEGER, chunkBytes INTEGER, "
          "isSend INTEGER"),
    table("FOREGATHER_NCCL_STEP",
          "parent INTEGER, start INTEGER, end INTEGER, step INTEGER, bytes INTEGER, "
          "gpuWait INTEGER, peerWait INTEGER, networkWait INTEGER, flushWait INTEGER"),
    table("FOREGATHER_NCCL_CHANNEL",
          "parent INTEGER, start INTEGER, end INTEGER, channel INTEGER, gpuStart INTEGER, "
          "gpuEnd INTEGER"),
    table("FOREGATHER_CLOCK", "realtime INTEGER, monotonic INTEGER, cupti INTEGER"),
};

}  // namespace

const RawTableSpec& spec(RawTable table) { return kSpecs[static_cast<std::size_t>(table)]; }

const char* const kRawSchema = R"sql(
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
CREATE TABLE TARGET_INFO_GPU (id INTEGER NOT NULL, name TEXT, totalMemory INTEGER,
  memoryBandwidth INTEGER, clockRate INTEGER, smCount INTEGER, l2CacheSize INTEGER,
  threadsPerWarp INTEGER, computeMajor INTEGER, computeMinor INTEGER, cuDevice INTEGER);
CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
CREATE TABLE DIAGNOSTIC_EVENT (timestamp INTEGER NOT NULL, timestampType INTEGER NOT NULL,
  source INTEGER NOT NULL, severity INTEGER NOT NULL, text TEXT NOT NULL, globalPid INTEGER);
CREATE TABLE NVTX_PAYLOAD_SCHEMAS (domainId INTEGER, schemaId INTEGER, name TEXT, type INTEGER,
  flags INTEGER, numEntries INTEGER, payloadSize INTEGER, alignTo INTEGER);
CREATE TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES (domainId INTEGER NOT NULL, schemaId INTEGER NOT NULL,
  idx INTEGER NOT NULL, flags INTEGER, type INTEGER, name TEXT, description TEXT,
  arrayOrUnionDetail INTEGER, offset INTEGER);
CREATE TABLE FOREGATHER_NVTX_PAYLOAD (eventId INTEGER, schemaId INTEGER, payload BLOB);
CREATE TABLE FOREGATHER_PROCESS (pid INTEGER NOT NULL, parentPid INTEGER, rank INTEGER,
  localRank INTEGER, worldSize INTEGER, host TEXT NOT NULL, command TEXT NOT NULL,
  began INTEGER NOT NULL, ended INTEGER, finished INTEGER NOT NULL);
CREATE TABLE FOREGATHER_COUNT (reason TEXT PRIMARY KEY, records INTEGER NOT NULL);
CREATE VIEW FOREGATHER_NCCL_COMPLETE AS
  SELECT c.*, (SELECT max(k.end) FROM FOREGATHER_NCCL_CHANNEL k WHERE k.parent = c.id) AS channelsEnd,
    (SELECT max(p.end) FROM FOREGATHER_NCCL_PROXY p WHERE p.parent = c.id) AS proxiesEnd
  FROM FOREGATHER_NCCL_COLLECTIVE c;
CREATE TABLE ENUM_CUDA_MEMCPY_OPER (id INTEGER PRIMARY KEY, name TEXT, label TEXT);
INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES
  (0, 'CUDA_MEMCPY_KIND_UNKNOWN', 'Unknown'), (1, 'CUDA_MEMCPY_KIND_HTOD', 'Host-to-Device'),
  (2, 'CUDA_MEMCPY_KIND_DTOH', 'Device-to-Host'), (8, 'CUDA_MEMCPY_KIND_DTOD', 'Device-to-Device'),
  (9, 'CUDA_MEMCPY_KIND_HTOH', 'Host-to-Host'), (10, 'CUDA_MEMCPY_KIND_PTOP', 'Peer-to-Peer');
CREATE TABLE ENUM_CUDA_MEM_KIND (id INTEGER PRIMARY KEY, name TEXT, label TEXT);
INSERT INTO ENUM_CUDA_MEM_KIND VALUES
  (0, 'CUDA_MEMOPR_MEMORY_KIND_PAGEABLE', 'Pageable'), (1, 'CUDA_MEMOPR_MEMORY_KIND_PINNED', 'Pinned'),
  (2, 'CUDA_MEMOPR_MEMORY_KIND_DEVICE', 'Device'), (3, 'CUDA_MEMOPR_MEMORY_KIND_ARRAY', 'Array'),
  (4, 'CUDA_MEMOPR_MEMORY_KIND_MANAGED', 'Managed'),
  (5, 'CUDA_MEMOPR_MEMORY_KIND_DEVICE_STATIC', 'Device Static'),
  (6, 'CUDA_MEMOPR_MEMORY_KIND_MANAGED_STATIC', 'Managed Static'),
  (7, 'CUDA_MEMOPR_MEMORY_KIND_UNKNOWN', 'Unknown');
CREATE TABLE ENUM_CUPTI_SYNC_TYPE (id INTEGER PRIMARY KEY, name TEXT, label TEXT);
INSERT INTO ENUM_CUPTI_SYNC_TYPE VALUES
  (0, 'CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_UNKNOWN', 'Unknown'),
  (1, 'CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE', 'Event Synchronize'),
  (2, 'CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT', 'Stream Wait Event'),
  (3, 'CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE', 'Stream Synchronize'),
  (4, 'CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE', 'Context Synchronize');
CREATE TABLE ENUM_NSYS_EVENT_TYPE (id INTEGER PRIMARY KEY, name TEXT, label TEXT);
INSERT INTO ENUM_NSYS_EVENT_TYPE VALUES
  (33, 'NvtxCategory', 'NvtxCategory'), (34, 'NvtxMark', 'NvtxMark'),
  (39, 'NvtxThread', 'NvtxThread'), (59, 'NvtxPushPopRange', 'NvtxPushPopRange'),
  (60, 'NvtxStartEndRange', 'NvtxStartEndRange'), (75, 'NvtxDomainCreate', 'NvtxDomainCreate'),
  (76, 'NvtxDomainDestroy', 'NvtxDomainDestroy');
)sql";

}  // namespace foregather::profiler
