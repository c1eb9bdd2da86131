// The tables of a raw recording: what one process of a recorded job wrote.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace foregather::profiler {

/// PRAGMA application_id of a raw recording: "FoRR".
inline constexpr std::int32_t kRawApplicationId = 0x466F5252;
inline constexpr std::int32_t kRawVersion = 1;

/// Tables whose columns are all integers (texts are ids of StringIds): the ones of Nsight Systems
/// have its names, columns and enumerators (its schema 3.x), so that its SQL and its readers work;
/// those of our own begin with FOREGATHER_. docs/formats.md describes them.
enum class RawTable : std::uint8_t {
  kernel,
  memcpy,
  memset,
  runtime,  ///< runtime and driver calls
  synchronization,
  cuda_event,
  graph_trace,
  overhead,
  memory,
  memory_pool,
  nvtx,
  thread_name,
  context,
  stream,
  external_correlation,
  marker_data,
  object_name,
  nccl_communicator,
  nccl_call,
  nccl_collective,
  nccl_p2p,
  nccl_proxy,
  nccl_step,
  nccl_channel,
  clock,
  nvtx_payload,  ///< has a blob: none of the tables below
};
inline constexpr std::size_t kRawTables = static_cast<std::size_t>(RawTable::nvtx_payload);

struct RawTableSpec {
  std::string_view name;
  std::string_view columns;  ///< as in CREATE TABLE
  std::size_t width;         ///< number of columns
};

inline constexpr std::size_t kMostColumns = 32;

const RawTableSpec& spec(RawTable table);

/// NVTX_EVENTS.eventType.
enum NvtxEventType : std::int64_t {
  kNvtxCategory = 33,
  kNvtxMark = 34,
  kNvtxPushPop = 59,
  kNvtxStartEnd = 60,
  kNvtxDomainCreate = 75,
};

/// The other tables, and the values of the enumerations: SQL.
extern const char* const kRawSchema;

}  // namespace foregather::profiler
