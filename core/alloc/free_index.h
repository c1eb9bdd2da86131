// The free blocks of one pool and stream, ordered by (size, address).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/alloc/ids.h"

namespace foregather::alloc {

/// Index of a block in its table (block_table.h).
using BlockIndex = std::uint32_t;

/// An ordered set of (size, address, block).
///
/// Sizes fall into classes, 32 to an octave, found by bit arithmetic; a bitmap says which classes
/// are inhabited. Inside a class one 64-bit key (offset in the class, address) orders the entries,
/// kept in a small sorted chunk; a class that outgrows one chunk gets a directory of chunks. So an
/// operation costs a few cache lines whatever the number of blocks, and a copy is a copy of flat
/// arrays.
///
/// Assumes sizes and addresses that are multiples of 512, sizes below 1 TiB, addresses below 2^51,
/// and no two entries with one address. No heap allocation once the arrays have grown.
class FreeIndex {
 public:
  static constexpr Bytes kSizeLimit = Bytes{1} << 40;
  static constexpr Address kAddressLimit = Address{1} << 51;

  /// Where an entry is; becomes invalid with any change of the index.
  struct Position {
    std::uint32_t cls = 0;
    std::uint32_t ordinal = 0;  ///< of the chunk in its class
    std::uint32_t chunk = 0;
    std::uint32_t slot = 0;
  };

  FreeIndex() { heads_.fill(kUnused); }

  std::size_t size() const;
  bool empty() const { return inhabited_words_ == 0; }

  void insert(Bytes size, Address address, BlockIndex block);
  /// The entry must be there.
  void erase(Bytes size, Address address);
  void erase(const Position& position);
  /// The block of an entry has become another part of memory. Cheap where the size changes little.
  void move(const Position& from, Bytes size, Address address);
  void move(Bytes from_size, Address from_address, Bytes size, Address address);

  /// The first entry of at least `size` bytes; false if there is none.
  bool lower_bound(Bytes size, Position& position) const;
  bool first(Position& position) const;
  bool last(Position& position) const;
  /// To the neighbour in order; false (and `position` unspecified) at the end.
  bool next(Position& position) const;
  bool previous(Position& position) const;

  BlockIndex block(const Position& position) const {
    return chunks_[position.chunk].blocks[position.slot];
  }

 private:
  static constexpr std::uint32_t kChunkEntries = 9;
  static constexpr std::uint64_t kEndKey = ~std::uint64_t{0};
  static constexpr std::uint32_t kDirectory = 0x80000000U;  ///< flag in heads_
  static constexpr std::uint32_t kUnused = 0x7fffffffU;
  static constexpr int kUnitBits = 9;      ///< sizes and addresses count units of 512 bytes
  static constexpr int kAddressBits = 42;  ///< of a key: address in units
  static constexpr int kOffsetBits = 64 - kAddressBits;
  static constexpr int kStepBits = 5;                 ///< 32 classes an octave
  static constexpr int kClassShift = 52 - kStepBits;  ///< of a double's bits
  static constexpr std::uint32_t kClassOfOne = 1023U << kStepBits;
  /// From there on classes are as wide as an offset can tell apart.
  static constexpr int kWideBits = kOffsetBits + kStepBits + 1;
  static constexpr Bytes kWideUnits = Bytes{1} << kWideBits;
  static constexpr std::uint32_t kWideClass = static_cast<std::uint32_t>(kWideBits) << kStepBits;
  static constexpr std::uint32_t kClasses =
      kWideClass +
      static_cast<std::uint32_t>(((kSizeLimit >> kUnitBits) - kWideUnits) >> kOffsetBits);
  static constexpr std::uint32_t kWords = kClasses / 64;
  static_assert(kClasses % 64 == 0 && kWords <= 32);

  /// Sorted by key; keys[count] is kEndKey. Two lines of the cache; the first one holds all of two
  /// entries.
  struct alignas(64) Chunk {
    std::uint32_t count;
    std::array<BlockIndex, kChunkEntries> blocks;
    std::array<std::uint64_t, kChunkEntries + 1> keys;
  };
  static_assert(sizeof(Chunk) == 128);
  using Directory = std::vector<std::uint32_t>;  ///< chunks in order of their keys

  struct Place {
    std::uint32_t cls;
    std::uint64_t key;
  };
  static Place place(Bytes size, Address address);

  std::uint32_t new_chunk();
  static void insert_into_chunk(Chunk& chunk, std::uint64_t key, BlockIndex block);
  static void erase_from_chunk(Chunk& chunk, std::uint32_t slot);
  static std::uint32_t slot_of(const Chunk& chunk, std::uint64_t key);
  void insert_elsewhere(const Place& at, BlockIndex block);
  void erase_in_directory(const Position& position);
  void remove_chunk(Directory& directory, std::uint32_t ordinal);
  void mark_inhabited(std::uint32_t cls);
  void mark_empty(std::uint32_t cls);

  Position find(const Place& at) const;
  bool has_directory(std::uint32_t cls) const { return heads_[cls] >= kDirectory; }
  std::uint32_t chunk_count(std::uint32_t cls) const;
  std::uint32_t chunk_at(std::uint32_t cls, std::uint32_t ordinal) const;
  std::uint32_t ordinal_of(std::uint32_t cls, std::uint64_t key) const;
  Directory& directory(std::uint32_t cls) { return directories_[heads_[cls] & ~kDirectory]; }
  const Directory& directory(std::uint32_t cls) const {
    return directories_[heads_[cls] & ~kDirectory];
  }

  bool lower_bound_in_directory(const Place& at, Position& position) const;
  bool class_at_or_after(std::uint32_t from, std::uint32_t& cls) const;
  bool class_before(std::uint32_t before, std::uint32_t& cls) const;
  void enter_front(std::uint32_t cls, Position& position) const;
  void enter_back(std::uint32_t cls, Position& position) const;

  std::uint32_t inhabited_words_ = 0;
  std::array<std::uint64_t, kWords> inhabited_{};
  /// By class: kUnused, a chunk (maybe empty), or kDirectory | directory of inhabited chunks.
  std::array<std::uint32_t, kClasses> heads_;
  std::vector<Chunk> chunks_;
  std::vector<std::uint32_t> spare_chunks_;
  std::vector<Directory> directories_;
  std::vector<std::uint32_t> spare_directories_;
};

// The fast path: classes of one chunk.

inline FreeIndex::Place FreeIndex::place(Bytes size, Address address) {
  assert(size >= 512 && size < kSizeLimit && size % 512 == 0);
  assert(address >= 0 && address < kAddressLimit && address % 512 == 0);
  const auto unit = static_cast<std::uint64_t>(address) >> kUnitBits;
  const Bytes units = size >> kUnitBits;
  if (units >= kWideUnits) [[unlikely]] {
    const auto above = static_cast<std::uint64_t>(units - kWideUnits);
    return {kWideClass + static_cast<std::uint32_t>(above >> kOffsetBits),
            above << kAddressBits | unit};
  }
  // A double is the octave, then the class in the octave, then the offset in the class.
  const auto bits = std::bit_cast<std::uint64_t>(static_cast<double>(units));
  return {static_cast<std::uint32_t>(bits >> kClassShift) - kClassOfOne,
          bits << (64 - kClassShift) | unit};
}

inline void FreeIndex::insert_into_chunk(Chunk& chunk, std::uint64_t key, BlockIndex block) {
  std::uint32_t slot = chunk.count++;
  chunk.keys[slot + 1] = kEndKey;
  for (; slot > 0 && chunk.keys[slot - 1] > key; --slot) {
    chunk.keys[slot] = chunk.keys[slot - 1];
    chunk.blocks[slot] = chunk.blocks[slot - 1];
  }
  chunk.keys[slot] = key;
  chunk.blocks[slot] = block;
}

inline void FreeIndex::erase_from_chunk(Chunk& chunk, std::uint32_t slot) {
  --chunk.count;
  while ((chunk.keys[slot] = chunk.keys[slot + 1]) != kEndKey) {
    chunk.blocks[slot] = chunk.blocks[slot + 1];
    ++slot;
  }
}

inline std::uint32_t FreeIndex::slot_of(const Chunk& chunk, std::uint64_t key) {
  std::uint32_t slot = 0;
  while (chunk.keys[slot] < key) ++slot;
  return slot;
}

inline void FreeIndex::mark_inhabited(std::uint32_t cls) {
  inhabited_[cls / 64] |= std::uint64_t{1} << (cls % 64);
  inhabited_words_ |= std::uint32_t{1} << (cls / 64);
}

inline void FreeIndex::mark_empty(std::uint32_t cls) {
  std::uint64_t& word = inhabited_[cls / 64];
  word &= ~(std::uint64_t{1} << (cls % 64));
  if (word == 0) inhabited_words_ &= ~(std::uint32_t{1} << (cls / 64));
}

[[gnu::always_inline]] inline FreeIndex::Position FreeIndex::find(const Place& at) const {
  const std::uint32_t ordinal = has_directory(at.cls) ? ordinal_of(at.cls, at.key) : 0;
  const std::uint32_t chunk = chunk_at(at.cls, ordinal);
  const std::uint32_t slot = slot_of(chunks_[chunk], at.key);
  assert(chunks_[chunk].keys[slot] == at.key);
  return {at.cls, ordinal, chunk, slot};
}

inline std::uint32_t FreeIndex::chunk_at(std::uint32_t cls, std::uint32_t ordinal) const {
  return has_directory(cls) ? directory(cls)[ordinal] : heads_[cls];
}

inline void FreeIndex::insert(Bytes size, Address address, BlockIndex block) {
  const Place at = place(size, address);
  const std::uint32_t head = heads_[at.cls];
  if (head >= kUnused || chunks_[head].count == kChunkEntries) [[unlikely]] {
    insert_elsewhere(at, block);
  } else {
    if (chunks_[head].count == 0) mark_inhabited(at.cls);
    insert_into_chunk(chunks_[head], at.key, block);
  }
}

inline void FreeIndex::erase(Bytes size, Address address) { erase(find(place(size, address))); }

[[gnu::always_inline]] inline void FreeIndex::erase(const Position& position) {
  if (has_directory(position.cls)) [[unlikely]] {
    erase_in_directory(position);
    return;
  }
  Chunk& chunk = chunks_[position.chunk];
  erase_from_chunk(chunk, position.slot);
  if (chunk.count == 0) mark_empty(position.cls);
}

[[gnu::always_inline]] inline void FreeIndex::move(const Position& from, Bytes size,
                                                   Address address) {
  const Place at = place(size, address);
  Chunk& chunk = chunks_[from.chunk];
  std::uint32_t slot = from.slot;
  const BlockIndex block = chunk.blocks[slot];
  if (at.cls != from.cls || has_directory(at.cls)) {
    erase(from);
    insert(size, address, block);
    return;
  }
  for (; chunk.keys[slot + 1] < at.key; ++slot) {
    chunk.keys[slot] = chunk.keys[slot + 1];
    chunk.blocks[slot] = chunk.blocks[slot + 1];
  }
  for (; slot > 0 && chunk.keys[slot - 1] > at.key; --slot) {
    chunk.keys[slot] = chunk.keys[slot - 1];
    chunk.blocks[slot] = chunk.blocks[slot - 1];
  }
  chunk.keys[slot] = at.key;
  chunk.blocks[slot] = block;
}

inline void FreeIndex::move(Bytes from_size, Address from_address, Bytes size, Address address) {
  move(find(place(from_size, from_address)), size, address);
}

[[gnu::always_inline]] inline bool FreeIndex::lower_bound(Bytes size, Position& position) const {
  if (size >= kSizeLimit) [[unlikely]]
    return false;
  const Place at = place(size, 0);
  const std::uint32_t head = heads_[at.cls];
  if (head < kUnused) [[likely]] {
    const Chunk& chunk = chunks_[head];
    const std::uint32_t slot = slot_of(chunk, at.key);
    if (chunk.keys[slot] != kEndKey) {
      position = {at.cls, 0, head, slot};
      return true;
    }
  } else if (head >= kDirectory && lower_bound_in_directory(at, position)) {
    return true;
  }
  std::uint32_t cls;
  if (!class_at_or_after(at.cls + 1, cls)) return false;
  enter_front(cls, position);
  return true;
}

inline bool FreeIndex::class_at_or_after(std::uint32_t from, std::uint32_t& cls) const {
  if (from >= kClasses) return false;
  std::uint32_t word = from / 64;
  std::uint64_t bits = inhabited_[word] >> (from % 64) << (from % 64);
  if (bits == 0) {
    const std::uint32_t words = inhabited_words_ >> word >> 1 << word << 1;
    if (words == 0) return false;
    word = static_cast<std::uint32_t>(std::countr_zero(words));
    bits = inhabited_[word];
  }
  cls = word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits));
  return true;
}

inline void FreeIndex::enter_front(std::uint32_t cls, Position& position) const {
  position = {cls, 0, chunk_at(cls, 0), 0};
}

}  // namespace foregather::alloc
