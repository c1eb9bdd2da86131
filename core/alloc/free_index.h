// The free blocks of one pool and stream, ordered by (size, address).
#pragma once

#include <array>
#include <bit>
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

  /// Where an entry is; becomes invalid with any insert or erase.
  struct Position {
    std::uint32_t cls = 0;
    std::uint32_t ordinal = 0;  ///< of the chunk in its class
    std::uint32_t chunk = 0;
    std::uint32_t slot = 0;
  };

  FreeIndex();

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  void insert(Bytes size, Address address, BlockIndex block);
  /// The entry must be there.
  void erase(Bytes size, Address address);
  void erase(const Position& position);

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
  static constexpr std::uint32_t kChunkEntries = 15;
  static constexpr std::uint32_t kClasses = 1216;
  static constexpr std::uint32_t kWords = kClasses / 64;
  static constexpr std::uint64_t kEndKey = ~std::uint64_t{0};
  static constexpr std::uint32_t kEmpty = 0xffffffffU;
  static constexpr std::uint32_t kDirectory = 0x80000000U;  ///< flag in heads_

  /// Sorted by key; keys[count] is kEndKey.
  struct Chunk {
    std::array<std::uint64_t, kChunkEntries + 1> keys;
    std::array<BlockIndex, kChunkEntries> blocks;
    std::uint32_t count;
  };
  using Directory = std::vector<std::uint32_t>;  ///< chunks in order of their keys

  struct Place {
    std::uint32_t cls;
    std::uint64_t key;
  };
  static Place place(Bytes size, Address address);

  std::uint32_t new_chunk();
  void insert_into_chunk(Chunk& chunk, std::uint64_t key, BlockIndex block);
  static void erase_from_chunk(Chunk& chunk, std::uint32_t slot);
  static std::uint32_t slot_of(const Chunk& chunk, std::uint64_t key);
  void insert_overflowing(std::uint32_t cls, std::uint64_t key, BlockIndex block);
  void erase_in_directory(std::uint32_t cls, std::uint32_t ordinal, std::uint32_t slot);
  void remove_chunk(Directory& directory, std::uint32_t ordinal);
  void mark_empty(std::uint32_t cls);

  std::uint32_t chunk_count(std::uint32_t cls) const;
  std::uint32_t chunk_at(std::uint32_t cls, std::uint32_t ordinal) const;
  std::uint32_t ordinal_of(std::uint32_t cls, std::uint64_t key) const;
  Directory& directory(std::uint32_t cls) { return directories_[heads_[cls] & ~kDirectory]; }
  const Directory& directory(std::uint32_t cls) const {
    return directories_[heads_[cls] & ~kDirectory];
  }

  bool class_at_or_after(std::uint32_t from, std::uint32_t& cls) const;
  bool class_before(std::uint32_t before, std::uint32_t& cls) const;
  void enter_front(std::uint32_t cls, Position& position) const;
  void enter_back(std::uint32_t cls, Position& position) const;

  std::size_t size_ = 0;
  std::uint32_t inhabited_words_ = 0;
  std::array<std::uint64_t, kWords> inhabited_{};
  std::vector<std::uint32_t> heads_;  ///< by class: kEmpty, a chunk, or kDirectory | directory
  std::vector<Chunk> chunks_;
  std::vector<std::uint32_t> spare_chunks_;
  std::vector<Directory> directories_;
  std::vector<std::uint32_t> spare_directories_;
};

}  // namespace foregather::alloc
