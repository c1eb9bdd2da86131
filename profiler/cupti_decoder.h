// CUPTI's activity records become rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "profiler/cupti_abi.h"
#include "profiler/raw_file.h"
#include "profiler/recorded_window.h"

namespace foregather::profiler {

/// Records come in any order, across buffers and kinds: nothing here depends on it. A
/// synchronisation, which names only its context, waits until a record says which device that is.
/// Enumerators become those of Nsight Systems. Not written, but counted by reason: device work
/// without times (start and end 0), without an end (still running at the last flush), with an end
/// before its start; what lies outside the window; records of other kinds; the rest of a damaged
/// buffer. Used by one thread.
class CuptiDecoder {
 public:
  struct Library {
    cupti::Layout layout;
    cupti::NextRecord next_record = nullptr;
    cupti::CallbackName callback_name = nullptr;
  };
  /// Borrows file and window. `pid` is of the recorded process.
  CuptiDecoder(RawFile& file, const RecordedWindow& window, Library library, std::int64_t pid)
      : file_(file), window_(window), library_(library), global_pid_(pid << 24U) {}

  void decode(std::uint8_t* buffer, std::size_t valid);
  /// Counts what still waits for its context.
  void finish();

 private:
  /// A row of synchronization or cuda_event, without its device.
  struct Waiting {
    std::uint32_t context = 0;
    RawTable table = RawTable::synchronization;
    std::array<Cell, 10> cells;
    std::size_t device_at = 0, width = 0;
  };
  struct OpenMarker {
    std::int64_t start = 0, text = 0, domain = 0;
    Cell thread;
  };

  void add(const cupti::Record& record);
  void add(const cupti::Kernel& record);
  void add(const cupti::Memcpy& record);
  void add(const cupti::MemcpyPeer& record);
  void add(const cupti::Memset& record);
  void add(const cupti::Api& record);
  void add(const cupti::Memory& record);
  void add(const cupti::MemoryPool& record);
  void add(const cupti::Synchronization& record);
  void add(const cupti::CudaEvent& record);
  void add(const cupti::Overhead& record);
  void add(const cupti::Marker& record);
  void add(const cupti::MarkerData& record);
  void add(const cupti::ExternalCorrelation& record);
  void add(const cupti::Name& record);
  void add(const cupti::GraphTrace& record);
  void add(const cupti::Device& record);
  void add(const cupti::Context& record);
  void add(const cupti::Stream& record);

  bool is_timed(const char* what, std::uint64_t start, std::uint64_t end);
  std::int64_t time(std::uint64_t absolute) const {
    return static_cast<std::int64_t>(absolute) - file_.epoch();
  }
  Cell thread(std::uint32_t id) const { return global_pid_ | (id & 0xffffffU); }
  std::int64_t call_name(int domain, std::uint32_t callback);
  void learn(std::uint32_t context, std::uint32_t device);
  void add_or_wait(const Waiting& row);

  RawFile& file_;
  const RecordedWindow& window_;
  Library library_;
  std::int64_t global_pid_;
  std::unordered_map<std::uint32_t, std::uint32_t> device_of_context_;
  std::vector<Waiting> waiting_;
  std::unordered_map<std::uint64_t, std::int64_t> call_names_;  // by domain, callback
  std::unordered_map<std::uint32_t, OpenMarker> markers_;
};

}  // namespace foregather::profiler
