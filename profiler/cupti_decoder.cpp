#include "profiler/cupti_decoder.h"

#include <algorithm>
#include <string>

namespace foregather::profiler {
namespace {

constexpr std::size_t kMostWaiting = 65536, kMostMarkers = 65536;
constexpr std::uint32_t kThreadObject = 2;

// Nsight Systems' numbers: reference is its ENUM_ tables.
std::int64_t memory_kind(std::uint32_t kind) { return kind == 0 ? 7 : std::int64_t{kind} - 1; }

std::int64_t overhead_type(std::uint32_t kind) {
  constexpr std::uint32_t kLast = 6;  // command buffer full
  if (kind == 1) return 2;            // compilation
  const std::uint32_t high = kind >> 16U;
  return (kind & 0xffffU) == 0 && high >= 1 && high <= kLast ? std::int64_t{high} + 2 : 1;
}

const char* overhead_name(std::int64_t type) {
  constexpr std::array kNames{
      "Unknown",  "Driver compiler", "Buffer flush",          "Instrumentation",
      "Resource", "Module loading",  "Lazy function loading", "Command buffer full"};
  return kNames[static_cast<std::size_t>(type - 1)];
}

Cell present(std::uint64_t value) {
  return value == 0 ? Cell() : Cell(static_cast<std::int64_t>(value));
}

std::string_view text_or_nothing(const char* text) { return text == nullptr ? "" : text; }

}  // namespace

void CuptiDecoder::decode(std::uint8_t* buffer, std::size_t valid) {
  cupti::Record* record = nullptr;
  for (;;) {
    const int code = library_.next_record(buffer, valid, &record);
    if (code == cupti::kSuccess) {
      add(*record);
      continue;
    }
    if (code != cupti::kMaxLimitReached) file_.count("damaged_buffer");
    return;
  }
}

void CuptiDecoder::add(const cupti::Record& record) {
  const auto as = [&](const auto* type) { add(*reinterpret_cast<decltype(type)>(&record)); };
  switch (record.kind) {
    case cupti::kKernel:
    case cupti::kConcurrentKernel: return as(static_cast<const cupti::Kernel*>(nullptr));
    case cupti::kMemcpy: return as(static_cast<const cupti::Memcpy*>(nullptr));
    case cupti::kMemcpy2: return as(static_cast<const cupti::MemcpyPeer*>(nullptr));
    case cupti::kMemset: return as(static_cast<const cupti::Memset*>(nullptr));
    case cupti::kDriver:
    case cupti::kRuntime: return as(static_cast<const cupti::Api*>(nullptr));
    case cupti::kMemory2: return as(static_cast<const cupti::Memory*>(nullptr));
    case cupti::kMemoryPool: return as(static_cast<const cupti::MemoryPool*>(nullptr));
    case cupti::kSynchronization: return as(static_cast<const cupti::Synchronization*>(nullptr));
    case cupti::kCudaEvent: return as(static_cast<const cupti::CudaEvent*>(nullptr));
    case cupti::kOverhead: return as(static_cast<const cupti::Overhead*>(nullptr));
    case cupti::kMarker: return as(static_cast<const cupti::Marker*>(nullptr));
    case cupti::kMarkerData: return as(static_cast<const cupti::MarkerData*>(nullptr));
    case cupti::kExternalCorrelation:
      return as(static_cast<const cupti::ExternalCorrelation*>(nullptr));
    case cupti::kName: return as(static_cast<const cupti::Name*>(nullptr));
    case cupti::kGraphTrace: return as(static_cast<const cupti::GraphTrace*>(nullptr));
    case cupti::kDevice: return as(static_cast<const cupti::Device*>(nullptr));
    case cupti::kContext: return as(static_cast<const cupti::Context*>(nullptr));
    case cupti::kStream: return as(static_cast<const cupti::Stream*>(nullptr));
    default: file_.count("record_of_kind_" + std::to_string(record.kind));
  }
}

bool CuptiDecoder::is_timed(const char* what, std::uint64_t start, std::uint64_t end) {
  const auto refuse = [&](const char* reason) {
    file_.count(std::string(reason) + what);
    return false;
  };
  if (start == 0) return refuse("without_time: ");
  if (end == 0) return refuse("without_end: ");
  if (end < start) return refuse("ends_before_start: ");
  if (window_.contains(time(start))) return true;
  file_.leave_out();
  return false;
}

void CuptiDecoder::add(const cupti::Kernel& record) {
  learn(record.context, record.device);
  if (!is_timed("kernel", record.start, record.end)) return;
  const RawFile::KernelName name = file_.kernel_name(record.name);
  const std::int64_t local = static_cast<std::int64_t>(record.local_memory_total_64);
  file_.add(RawTable::kernel, {time(record.start),
                               time(record.end),
                               record.device,
                               record.context,
                               record.stream,
                               record.correlation,
                               global_pid_,
                               name.demangled,
                               name.brief,
                               name.mangled,
                               record.launch_type + 1,
                               record.registers_per_thread,
                               record.grid_x,
                               record.grid_y,
                               record.grid_z,
                               record.block_x,
                               record.block_y,
                               record.block_z,
                               record.static_shared_memory,
                               record.dynamic_shared_memory,
                               record.local_memory_per_thread,
                               local,
                               record.grid_id,
                               present(record.graph_node),
                               present(record.graph),
                               record.cluster_x,
                               record.cluster_y,
                               record.cluster_z});
}

void CuptiDecoder::add(const cupti::Memcpy& record) {
  learn(record.context, record.device);
  if (!is_timed("memcpy", record.start, record.end)) return;
  file_.add(RawTable::memcpy,
            {time(record.start), time(record.end), record.device, record.context, record.stream,
             record.correlation, global_pid_, static_cast<std::int64_t>(record.bytes),
             record.copy_kind, memory_kind(record.source_kind), memory_kind(record.target_kind),
             Cell(), Cell(), Cell(), Cell(), present(record.graph_node), Cell()});
}

void CuptiDecoder::add(const cupti::MemcpyPeer& record) {
  learn(record.context, record.device);
  if (!is_timed("memcpy", record.start, record.end)) return;
  file_.add(RawTable::memcpy,
            {time(record.start), time(record.end), record.device, record.context, record.stream,
             record.correlation, global_pid_, static_cast<std::int64_t>(record.bytes),
             record.copy_kind, memory_kind(record.source_kind), memory_kind(record.target_kind),
             record.source_device, record.source_context, record.target_device,
             record.target_context, present(record.graph_node), Cell()});
}

void CuptiDecoder::add(const cupti::Memset& record) {
  learn(record.context, record.device);
  if (!is_timed("memset", record.start, record.end)) return;
  file_.add(RawTable::memset,
            {time(record.start), time(record.end), record.device, record.context, record.stream,
             record.correlation, global_pid_, record.value, static_cast<std::int64_t>(record.bytes),
             present(record.graph_node), memory_kind(record.memory_kind)});
}

void CuptiDecoder::add(const cupti::Api& record) {
  if (!is_timed("call", record.start, record.end)) return;
  const bool is_driver = record.kind == cupti::kDriver;
  const int domain = is_driver ? cupti::kDriverDomain : cupti::kRuntimeDomain;
  file_.add(RawTable::runtime,
            {time(record.start), time(record.end), is_driver ? 1 : 0, thread(record.thread),
             record.correlation, call_name(domain, record.callback), record.return_value});
}

void CuptiDecoder::add(const cupti::Memory& record) {
  constexpr std::uint32_t kLocal = 1, kImported = 2;
  if (!is_timed("memory", record.timestamp, record.timestamp)) return;
  const bool is_local = record.pool_type == kLocal, is_imported = record.pool_type == kImported;
  const auto of = [](bool holds, std::uint64_t value) {
    return holds ? Cell(static_cast<std::int64_t>(value)) : Cell();
  };
  file_.add(
      RawTable::memory,
      {time(record.timestamp), global_pid_, record.device, record.context,
       static_cast<std::int64_t>(record.address), static_cast<std::int64_t>(record.program_counter),
       static_cast<std::int64_t>(record.bytes), memory_kind(record.memory_kind),
       std::int64_t{record.operation} - 1,
       record.name == nullptr ? Cell() : Cell(file_.text(record.name)), record.correlation,
       record.stream, of(is_local, record.pool_address), of(is_local, record.pool_threshold),
       of(is_local, record.pool_size_or_process), of(is_local, record.pool_utilized),
       of(is_imported, record.pool_address), of(is_imported, record.pool_size_or_process)});
}

void CuptiDecoder::add(const cupti::MemoryPool& record) {
  if (!is_timed("memory_pool", record.timestamp, record.timestamp)) return;
  file_.add(RawTable::memory_pool,
            {time(record.timestamp), global_pid_, record.device,
             static_cast<std::int64_t>(record.address), record.operation, record.pool_type,
             record.correlation, static_cast<std::int64_t>(record.bytes_to_keep),
             static_cast<std::int64_t>(record.threshold), static_cast<std::int64_t>(record.size),
             static_cast<std::int64_t>(record.utilized)});
}

void CuptiDecoder::add(const cupti::Synchronization& record) {
  if (!is_timed("synchronization", record.start, record.end)) return;
  const Cell sync = library_.layout.has_sync_ids ? present(record.event_sync) : Cell();
  add_or_wait({record.context,
               RawTable::synchronization,
               {time(record.start), time(record.end), Cell(), record.context, record.stream,
                record.correlation, global_pid_, record.type, record.event, sync},
               2,
               10});
}

void CuptiDecoder::add(const cupti::CudaEvent& record) {
  const bool is_new = library_.layout.has_sync_ids;
  if (is_new) learn(record.context, record.device);
  const Cell when = is_new && record.timestamp != 0 ? Cell(time(record.timestamp)) : Cell();
  add_or_wait({record.context,
               RawTable::cuda_event,
               {when, Cell(), record.context, record.stream, record.correlation, global_pid_,
                record.event, is_new ? present(record.event_sync) : Cell()},
               1,
               8});
}

void CuptiDecoder::add_or_wait(const Waiting& row) {
  const auto device = device_of_context_.find(row.context);
  if (device == device_of_context_.end()) {
    if (waiting_.size() == kMostWaiting) return file_.count("context_without_device");
    waiting_.push_back(row);
    return;
  }
  std::array<Cell, 10> cells = row.cells;
  cells[row.device_at] = device->second;
  file_.add(row.table, cells.data(), row.width);
}

void CuptiDecoder::learn(std::uint32_t context, std::uint32_t device) {
  if (!device_of_context_.try_emplace(context, device).second) return;
  std::vector<Waiting> rows;
  rows.swap(waiting_);
  for (const Waiting& row : rows) add_or_wait(row);
}

void CuptiDecoder::finish() {
  file_.count("context_without_device", static_cast<std::int64_t>(waiting_.size()));
  file_.count("marker_without_end", static_cast<std::int64_t>(markers_.size()));
  waiting_.clear();
  markers_.clear();
}

void CuptiDecoder::add(const cupti::Overhead& record) {
  if (!is_timed("overhead", record.start, record.end)) return;
  const std::int64_t type = overhead_type(record.overhead_kind);
  const bool is_of_thread = record.object_kind == kThreadObject;
  file_.add(RawTable::overhead,
            {time(record.start), time(record.end),
             is_of_thread ? thread(record.object[1]) : Cell(global_pid_),
             library_.layout.has_overhead_correlation ? present(record.correlation) : Cell(),
             file_.text(overhead_name(type)), type});
}

void CuptiDecoder::add(const cupti::Marker& record) {
  const Cell of_thread =
      record.object_kind == kThreadObject ? thread(record.object[1]) : Cell(global_pid_);
  if ((record.flags & cupti::kMarkerEnd) != 0) {
    const auto open = markers_.find(record.id);
    if (open == markers_.end()) return file_.count("marker_without_start");
    const OpenMarker from = open->second;
    markers_.erase(open);
    if (!window_.contains(from.start)) return file_.leave_out();
    file_.add(RawTable::nvtx, {from.start, time(record.timestamp), kNvtxStartEnd, record.id, Cell(),
                               Cell(), from.thread, of_thread, from.text});
    return;
  }
  if ((record.flags & cupti::kMarkerStart) != 0) {
    if (markers_.size() == kMostMarkers) return file_.count("marker_without_end");
    markers_[record.id] = {time(record.timestamp), file_.text(text_or_nothing(record.name)), 0,
                           of_thread};
    return;
  }
  if (!window_.contains(time(record.timestamp))) return file_.leave_out();
  file_.add(RawTable::nvtx, {time(record.timestamp), Cell(), kNvtxMark, record.id, Cell(), Cell(),
                             of_thread, Cell(), file_.text(text_or_nothing(record.name))});
}

void CuptiDecoder::add(const cupti::MarkerData& record) {
  file_.add(RawTable::marker_data, {record.id, record.color, record.category, record.payload_kind,
                                    static_cast<std::int64_t>(record.payload)});
}

void CuptiDecoder::add(const cupti::ExternalCorrelation& record) {
  file_.add(RawTable::external_correlation, {global_pid_, record.correlation, record.external_kind,
                                             static_cast<std::int64_t>(record.external)});
}

void CuptiDecoder::add(const cupti::Name& record) {
  file_.add(RawTable::object_name, {record.object_kind, record.object[0], record.object[1],
                                    file_.text(text_or_nothing(record.name))});
}

void CuptiDecoder::add(const cupti::GraphTrace& record) {
  learn(record.context, record.device);
  if (!is_timed("graph", record.start, record.end)) return;
  file_.add(RawTable::graph_trace,
            {time(record.start), time(record.end), record.device, record.context, record.stream,
             record.correlation, global_pid_, Cell(), record.graph});
}

void CuptiDecoder::add(const cupti::Device& record) {
  constexpr std::int64_t kKilo = 1000;
  file_.run("INSERT INTO TARGET_INFO_GPU VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            std::int64_t{record.id}, text_or_nothing(record.name),
            static_cast<std::int64_t>(record.memory_bytes),
            static_cast<std::int64_t>(record.memory_bandwidth) * kKilo, record.core_clock * kKilo,
            std::int64_t{record.multiprocessors}, std::int64_t{record.l2_cache},
            std::int64_t{record.threads_per_warp}, std::int64_t{record.compute_major},
            std::int64_t{record.compute_minor}, std::int64_t{record.id});
}

void CuptiDecoder::add(const cupti::Context& record) {
  learn(record.id, record.device);
  file_.add(RawTable::context,
            {record.null_stream, record.id, record.device, global_pid_ >> 24U, Cell(), Cell()});
}

void CuptiDecoder::add(const cupti::Stream& record) {
  file_.add(RawTable::stream, {record.id, global_pid_ >> 24U, record.context,
                               static_cast<std::int32_t>(record.priority), record.flag});
}

std::int64_t CuptiDecoder::call_name(int domain, std::uint32_t callback) {
  std::int64_t& id = call_names_[static_cast<std::uint64_t>(domain) << 32U | callback];
  if (id != 0) return id;
  const char* name = nullptr;
  if (library_.callback_name != nullptr &&
      library_.callback_name(domain, callback, &name) == cupti::kSuccess && name != nullptr)
    return id = file_.text(name);
  return id = file_.text((domain == cupti::kDriverDomain ? "driver call " : "runtime call ") +
                         std::to_string(callback));
}

}  // namespace foregather::profiler
