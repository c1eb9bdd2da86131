#include "profiler/host_events.h"

#include <algorithm>
#include <cstring>

namespace foregather::profiler {

// Of one thread. A block outlives the thread: blocks are never freed.
struct HostEvents::Held {
  std::uint64_t number = 0;  // of the HostEvents that the block is of
  Block* block = nullptr;

  void retire() {
    if (block != nullptr) block->is_retired.store(true, std::memory_order_release);
    block = nullptr;
  }
  ~Held() { retire(); }
};

namespace {
std::atomic<std::uint64_t> g_made{0};
}

HostEvents::HostEvents() : number_(++g_made) {}

bool HostEvents::add(const HostEvent& event) {
  static thread_local Held held;
  // A block of another object: of the process that this one was forked from.
  if (held.number != number_) held = Held{number_, nullptr};
  const std::size_t text = std::min(event.text.size(), kLongestText);
  const std::size_t cells = event.cells.size() * sizeof(std::int64_t);
  const auto bytes = static_cast<std::uint32_t>(sizeof(Header) + cells + (text + 7) / 8 * 8);
  if (held.block != nullptr &&
      held.block->filled.load(std::memory_order_relaxed) + bytes > kBlockBytes)
    held.retire();
  if (held.block == nullptr) held.block = fresh();
  if (held.block == nullptr) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  const std::uint32_t filled = held.block->filled.load(std::memory_order_relaxed);
  std::byte* const at = held.block->bytes.data() + filled;
  Header header{bytes,
                0,
                static_cast<std::uint8_t>(event.table),
                static_cast<std::uint8_t>(event.cells.size()),
                static_cast<std::uint8_t>(event.text_column),
                static_cast<std::uint16_t>(text)};
  auto* const values = reinterpret_cast<std::int64_t*>(at + sizeof(Header));
  for (std::size_t i = 0; i < event.cells.size(); ++i) {
    values[i] = event.cells[i].value_or(0);
    header.nulls |= static_cast<std::uint32_t>(!event.cells[i].has_value()) << i;
  }
  std::memcpy(at, &header, sizeof header);
  if (text > 0) std::memcpy(at + sizeof(Header) + cells, event.text.data(), text);
  held.block->filled.store(filled + bytes, std::memory_order_release);
  return true;
}

HostEvents::Block* HostEvents::fresh() {
  const std::lock_guard lock(mutex_);
  Block* block = nullptr;
  if (!free_.empty()) {
    block = free_.back();
    free_.pop_back();
  } else if (all_.size() < kBlocks) {
    block = all_.emplace_back(std::make_unique<Block>()).get();
  } else {
    return nullptr;
  }
  used_blocks_.push_back(block);
  used_.store(static_cast<std::uint32_t>(used_blocks_.size()), std::memory_order_relaxed);
  return block;
}

std::vector<HostEvents::Block*> HostEvents::in_use() {
  const std::lock_guard lock(mutex_);
  return used_blocks_;
}

void HostEvents::give_back(Block* block) {
  block->filled.store(0, std::memory_order_relaxed);
  block->is_retired.store(false, std::memory_order_relaxed);
  block->taken = 0;
  const std::lock_guard lock(mutex_);
  std::erase(used_blocks_, block);
  used_.store(static_cast<std::uint32_t>(used_blocks_.size()), std::memory_order_relaxed);
  free_.push_back(block);
}

}  // namespace foregather::profiler
