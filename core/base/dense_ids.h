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
    if (slot.row == kNoRow) slot = {key, static_cast<std::uint32_t>(keys_++)};
    return slot.row;
  }
  /// The row of a key that has one, else kNoRow.
  std::uint32_t known(std::uint64_t key) const {
    return slots_.empty() ? kNoRow : slots_[place(key)].row;
  }
  static constexpr std::uint32_t kNoRow = 0xffffffffU;
  std::size_t size() const { return keys_; }

 private:
  struct Slot {
    std::uint64_t key = 0;
    std::uint32_t row = kNoRow;
  };

  // Fibonacci hashing: consecutive keys spread out, and no key set is slow by accident.
  std::size_t place(std::uint64_t key) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t i = (key * 0x9e3779b97f4a7c15U) >> std::countl_zero(mask | 1);
    while (slots_[i].row != kNoRow && slots_[i].key != key) i = (i + 1) & mask;
    return i;
  }
  Slot& find(std::uint64_t key) { return slots_[place(key)]; }

  void grow() {
    std::vector<Slot> old = std::exchange(slots_, {});
    slots_.resize(old.empty() ? 1024 : 2 * old.size());
    for (const Slot& slot : old)
      if (slot.row != kNoRow) find(slot.key) = slot;
  }

  std::vector<Slot> slots_;
  std::size_t keys_ = 0;
};

}  // namespace foregather
