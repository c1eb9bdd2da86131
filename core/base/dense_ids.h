// Sparse 64-bit numbers to dense rows.
#pragma once

#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

namespace foregather {

/// Gives each distinct key the next row, counted from 0. Open addressing with linear probes at most
/// half full: one cache line a lookup. No more than 2^31 keys.
class DenseIds {
 public:
  std::uint32_t row(std::uint64_t key) {
    if (2 * (keys_ + 1) > slots_.size()) grow();
    Slot& slot = find(key);
    if (slot.row == kFree) slot = {key, static_cast<std::uint32_t>(keys_++)};
    return slot.row;
  }
  std::size_t size() const { return keys_; }

 private:
  static constexpr std::uint32_t kFree = 0xffffffffU;
  struct Slot {
    std::uint64_t key = 0;
    std::uint32_t row = kFree;
  };

  // Fibonacci hashing: consecutive keys spread out, and no key set is slow by accident.
  Slot& find(std::uint64_t key) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t i = (key * 0x9e3779b97f4a7c15U) >> (64 - std::bit_width(mask));
    while (slots_[i].row != kFree && slots_[i].key != key) i = (i + 1) & mask;
    return slots_[i];
  }

  void grow() {
    std::vector<Slot> old = std::exchange(slots_, {});
    slots_.resize(old.empty() ? 1024 : 2 * old.size());
    for (const Slot& slot : old)
      if (slot.row != kFree) find(slot.key) = slot;
  }

  std::vector<Slot> slots_;
  std::size_t keys_ = 0;
};

}  // namespace foregather
