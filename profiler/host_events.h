// What threads of the recorded process say (NVTX, NCCL), on its way to the writer.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "profiler/raw_file.h"

namespace foregather::profiler {

/// A row on its way. The text is that of `text_column`, cut after 4 KiB.
struct HostEvent {
  RawTable table = RawTable::nvtx;
  std::span<const Cell> cells;
  std::string_view text;
  std::size_t text_column = 0;  ///< used where the text is not empty
};

/// Each thread fills a block of its own (16 KiB) without a lock; a short lock gives it the next.
/// The reader takes what is filled so far, from all of them. At most 20 MiB: where the reader does
/// not keep up, events are dropped and counted.
class HostEvents {
 public:
  static constexpr std::size_t kBlocks = 1280, kBlockBytes = std::size_t{16} << 10U;
  static constexpr std::size_t kLongestText = 4096;

  HostEvents();
  HostEvents(const HostEvents&) = delete;
  HostEvents& operator=(const HostEvents&) = delete;

  /// From any thread. False: dropped.
  bool add(const HostEvent& event);
  std::int64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }
  /// Should the reader come before its time?
  bool is_crowded() const { return used_.load(std::memory_order_relaxed) > kBlocks / 4; }

  /// From one thread: all events that were added before the call, in the order of each thread.
  template <class Visit>
  void take(Visit visit) {
    for (Block* block : in_use()) {
      const bool is_full = block->is_retired.load(std::memory_order_acquire);
      const std::uint32_t filled = block->filled.load(std::memory_order_acquire);
      while (block->taken < filled)
        block->taken += visit_one(block->bytes.data() + block->taken, visit);
      if (is_full) give_back(block);
    }
  }

 private:
  struct Block {
    std::atomic<std::uint32_t> filled{0};
    std::atomic<bool> is_retired{false};
    std::uint32_t taken = 0;
    alignas(8) std::array<std::byte, kBlockBytes> bytes;
  };
  struct Header {
    std::uint32_t bytes = 0;  // with this, a multiple of 8
    std::uint32_t nulls = 0;
    std::uint8_t table = 0, cells = 0, text_column = 0;
    std::uint16_t text = 0;  // bytes
  };
  struct Held;  // the block of a thread

  Block* fresh();  // null: none is left
  std::vector<Block*> in_use();
  void give_back(Block* block);

  template <class Visit>
  static std::uint32_t visit_one(const std::byte* at, Visit& visit);

  const std::uint64_t number_;  // of this object among all of the process
  std::atomic<std::int64_t> dropped_{0};
  std::atomic<std::uint32_t> used_{0};
  std::mutex mutex_;
  std::vector<std::unique_ptr<Block>> all_;
  std::vector<Block*> free_, used_blocks_;
};

template <class Visit>
std::uint32_t HostEvents::visit_one(const std::byte* at, Visit& visit) {
  const auto& header = *reinterpret_cast<const Header*>(at);
  const auto* const values = reinterpret_cast<const std::int64_t*>(at + sizeof(Header));
  std::array<Cell, kMostColumns> cells;
  for (std::size_t i = 0; i < header.cells; ++i)
    if ((header.nulls >> i & 1U) == 0) cells[i] = values[i];
  visit(HostEvent{static_cast<RawTable>(header.table),
                  {cells.data(), header.cells},
                  {reinterpret_cast<const char*>(values + header.cells), header.text},
                  header.text_column});
  return header.bytes;
}

}  // namespace foregather::profiler
