// Best fit as one would write it in an afternoon: what the caching allocator's speed is compared
// with.
#pragma once

#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "core/alloc/ids.h"
#include "core/base/units.h"

namespace foregather::bench {

/// One ordered set of free blocks, one ordered map of all blocks, the sizes and the splitting rule
/// of PyTorch; no pools, no streams, no statistics.
class PlainBestFit {
 public:
  alloc::Address malloc(Bytes requested) {
    const Bytes size = (requested + 511) / 512 * 512;
    auto found = free_.lower_bound({size, 0});
    if (found == free_.end()) {
      const Bytes segment = size <= MiB       ? 2 * MiB
                            : size < 10 * MiB ? 20 * MiB
                                              : round_up(size, 2 * MiB);
      blocks_[next_] = {segment, next_, true};
      found = free_.insert({segment, next_}).first;
      next_ += segment;
    }
    const auto [bytes, address] = *found;
    free_.erase(found);
    Block& block = blocks_[address];
    block.is_free = false;
    if (bytes - size >= (size <= MiB ? 512 : MiB + 512)) {
      block.size = size;
      blocks_[address + size] = {bytes - size, block.segment, true};
      free_.insert({bytes - size, address + size});
    }
    return address;
  }
  void free(alloc::Address address) {
    auto block = blocks_.find(address);
    block->second.is_free = true;
    const auto next = std::next(block);
    if (next != blocks_.end() && next->second.is_free &&
        next->second.segment == block->second.segment) {
      free_.erase({next->second.size, next->first});
      block->second.size += next->second.size;
      blocks_.erase(next);
    }
    if (block != blocks_.begin()) {
      const auto before = std::prev(block);
      if (before->second.is_free && before->second.segment == block->second.segment) {
        free_.erase({before->second.size, before->first});
        before->second.size += block->second.size;
        blocks_.erase(block);
        block = before;
      }
    }
    free_.insert({block->second.size, block->first});
  }

 private:
  struct Block {
    Bytes size = 0;
    alloc::Address segment = 0;
    bool is_free = false;
  };
  static Bytes round_up(Bytes size, Bytes to) { return (size + to - 1) / to * to; }

  std::set<std::pair<Bytes, alloc::Address>> free_;
  std::map<alloc::Address, Block> blocks_;
  alloc::Address next_ = alloc::Address{1} << 40;
};

}  // namespace foregather::bench
