#include "core/alloc/free_index.h"

#include <algorithm>
#include <cassert>

namespace foregather::alloc {
namespace {

constexpr int kUnitBits = 9;      // sizes and addresses count units of 512 bytes
constexpr int kAddressBits = 42;  // of a key: address in units
constexpr int kOffsetBits = 64 - kAddressBits;
constexpr int kStepBits = 5;      // 32 classes an octave

}  // namespace

FreeIndex::FreeIndex() : heads_(kClasses, kEmpty) {}

FreeIndex::Place FreeIndex::place(Bytes size, Address address) {
  assert(size > 0 && size < kSizeLimit && address >= 0 && address < kAddressLimit);
  const auto units = static_cast<std::uint64_t>(size) >> kUnitBits;
  const int octave = 63 - std::countl_zero(units | 1);
  const int shift = std::clamp(octave - kStepBits, 0, kOffsetBits);
  // Octaves below kStepBits have a class for each size; then 32 an octave; classes never get wider
  // than an offset can tell apart.
  const std::uint64_t cls = (units >> shift) + (static_cast<std::uint64_t>(shift) << kStepBits);
  const std::uint64_t offset = units & ((std::uint64_t{1} << shift) - 1);
  return {static_cast<std::uint32_t>(cls),
          offset << kAddressBits | static_cast<std::uint64_t>(address) >> kUnitBits};
}

std::uint32_t FreeIndex::new_chunk() {
  std::uint32_t chunk;
  if (spare_chunks_.empty()) {
    chunk = static_cast<std::uint32_t>(chunks_.size());
    chunks_.emplace_back();
  } else {
    chunk = spare_chunks_.back();
    spare_chunks_.pop_back();
  }
  chunks_[chunk].count = 0;
  chunks_[chunk].keys[0] = kEndKey;
  return chunk;
}

void FreeIndex::insert_into_chunk(Chunk& chunk, std::uint64_t key, BlockIndex block) {
  std::uint32_t slot = chunk.count++;
  chunk.keys[slot + 1] = kEndKey;
  for (; slot > 0 && chunk.keys[slot - 1] > key; --slot) {
    chunk.keys[slot] = chunk.keys[slot - 1];
    chunk.blocks[slot] = chunk.blocks[slot - 1];
  }
  chunk.keys[slot] = key;
  chunk.blocks[slot] = block;
}

void FreeIndex::erase_from_chunk(Chunk& chunk, std::uint32_t slot) {
  --chunk.count;
  for (; chunk.keys[slot] != kEndKey; ++slot) {
    chunk.keys[slot] = chunk.keys[slot + 1];
    if (slot < chunk.count) chunk.blocks[slot] = chunk.blocks[slot + 1];
  }
}

std::uint32_t FreeIndex::slot_of(const Chunk& chunk, std::uint64_t key) {
  std::uint32_t slot = 0;
  while (chunk.keys[slot] < key) ++slot;
  return slot;
}

void FreeIndex::insert(Bytes size, Address address, BlockIndex block) {
  const Place at = place(size, address);
  ++size_;
  std::uint32_t& head = heads_[at.cls];
  if (head == kEmpty) {
    head = new_chunk();
    inhabited_[at.cls / 64] |= std::uint64_t{1} << (at.cls % 64);
    inhabited_words_ |= std::uint32_t{1} << (at.cls / 64);
  } else if (head >= kDirectory || chunks_[head].count == kChunkEntries) [[unlikely]] {
    insert_overflowing(at.cls, at.key, block);
    return;
  }
  insert_into_chunk(chunks_[head], at.key, block);
}

void FreeIndex::insert_overflowing(std::uint32_t cls, std::uint64_t key, BlockIndex block) {
  if (heads_[cls] < kDirectory) {
    std::uint32_t id;
    if (spare_directories_.empty()) {
      id = static_cast<std::uint32_t>(directories_.size());
      directories_.emplace_back();
    } else {
      id = spare_directories_.back();
      spare_directories_.pop_back();
    }
    directories_[id].assign(1, heads_[cls]);
    heads_[cls] = kDirectory | id;
  }
  const std::uint32_t ordinal = ordinal_of(cls, key);
  std::uint32_t chunk = directory(cls)[ordinal];
  if (chunks_[chunk].count == kChunkEntries) {
    // Split into halves; the new chunk takes the upper one.
    const std::uint32_t upper = new_chunk();
    Chunk& from = chunks_[chunk];
    Chunk& to = chunks_[upper];
    constexpr std::uint32_t kHalf = kChunkEntries / 2;
    to.count = kChunkEntries - kHalf;
    std::copy(from.keys.begin() + kHalf, from.keys.end(), to.keys.begin());
    std::copy(from.blocks.begin() + kHalf, from.blocks.end(), to.blocks.begin());
    from.count = kHalf;
    from.keys[kHalf] = kEndKey;
    Directory& chunks = directory(cls);
    chunks.insert(chunks.begin() + ordinal + 1, upper);
    if (to.keys[0] < key) chunk = upper;
  }
  insert_into_chunk(chunks_[chunk], key, block);
}

void FreeIndex::erase(Bytes size, Address address) {
  const Place at = place(size, address);
  const std::uint32_t ordinal = heads_[at.cls] < kDirectory ? 0 : ordinal_of(at.cls, at.key);
  const std::uint32_t chunk = chunk_at(at.cls, ordinal);
  const std::uint32_t slot = slot_of(chunks_[chunk], at.key);
  assert(chunks_[chunk].keys[slot] == at.key);
  erase(Position{at.cls, ordinal, chunk, slot});
}

void FreeIndex::erase(const Position& position) {
  --size_;
  Chunk& chunk = chunks_[position.chunk];
  if (heads_[position.cls] >= kDirectory) [[unlikely]] {
    erase_in_directory(position.cls, position.ordinal, position.slot);
    return;
  }
  erase_from_chunk(chunk, position.slot);
  if (chunk.count == 0) {
    spare_chunks_.push_back(position.chunk);
    mark_empty(position.cls);
  }
}

void FreeIndex::mark_empty(std::uint32_t cls) {
  heads_[cls] = kEmpty;
  std::uint64_t& word = inhabited_[cls / 64];
  word &= ~(std::uint64_t{1} << (cls % 64));
  if (word == 0) inhabited_words_ &= ~(std::uint32_t{1} << (cls / 64));
}

void FreeIndex::erase_in_directory(std::uint32_t cls, std::uint32_t ordinal, std::uint32_t slot) {
  Directory& chunks = directory(cls);
  Chunk& chunk = chunks_[chunks[ordinal]];
  erase_from_chunk(chunk, slot);
  // Join with the chunk after it when both fit into half a chunk, so that few chunks are sparse.
  if (ordinal + 1 < chunks.size()) {
    const Chunk& after = chunks_[chunks[ordinal + 1]];
    if (chunk.count + after.count <= kChunkEntries / 2) {
      std::copy_n(after.keys.begin(), after.count + 1, chunk.keys.begin() + chunk.count);
      std::copy_n(after.blocks.begin(), after.count, chunk.blocks.begin() + chunk.count);
      chunk.count += after.count;
      remove_chunk(chunks, ordinal + 1);
    }
  }
  if (chunk.count == 0) remove_chunk(chunks, ordinal);
  if (chunks.size() == 1) {
    const std::uint32_t id = heads_[cls] & ~kDirectory;
    heads_[cls] = chunks[0];
    spare_directories_.push_back(id);
  }
}

void FreeIndex::remove_chunk(Directory& directory, std::uint32_t ordinal) {
  spare_chunks_.push_back(directory[ordinal]);
  directory.erase(directory.begin() + ordinal);
}

std::uint32_t FreeIndex::chunk_count(std::uint32_t cls) const {
  return heads_[cls] < kDirectory ? 1 : static_cast<std::uint32_t>(directory(cls).size());
}

std::uint32_t FreeIndex::chunk_at(std::uint32_t cls, std::uint32_t ordinal) const {
  return heads_[cls] < kDirectory ? heads_[cls] : directory(cls)[ordinal];
}

// The last chunk whose first key is not above `key`, or the first chunk.
std::uint32_t FreeIndex::ordinal_of(std::uint32_t cls, std::uint64_t key) const {
  const Directory& chunks = directory(cls);
  const auto after = std::upper_bound(
      chunks.begin() + 1, chunks.end(), key,
      [this](std::uint64_t value, std::uint32_t chunk) { return value < chunks_[chunk].keys[0]; });
  return static_cast<std::uint32_t>(after - chunks.begin() - 1);
}

bool FreeIndex::lower_bound(Bytes size, Position& position) const {
  if (size >= kSizeLimit) return false;
  const Place at = place(size, 0);
  if (heads_[at.cls] != kEmpty) {
    position.cls = at.cls;
    position.ordinal = heads_[at.cls] < kDirectory ? 0 : ordinal_of(at.cls, at.key);
    position.chunk = chunk_at(at.cls, position.ordinal);
    position.slot = slot_of(chunks_[position.chunk], at.key);
    if (position.slot < chunks_[position.chunk].count) return true;
    if (++position.ordinal < chunk_count(at.cls)) {
      position.chunk = chunk_at(at.cls, position.ordinal);
      position.slot = 0;
      return true;
    }
  }
  std::uint32_t cls;
  if (!class_at_or_after(at.cls + 1, cls)) return false;
  enter_front(cls, position);
  return true;
}

bool FreeIndex::first(Position& position) const {
  std::uint32_t cls;
  if (!class_at_or_after(0, cls)) return false;
  enter_front(cls, position);
  return true;
}

bool FreeIndex::last(Position& position) const {
  std::uint32_t cls;
  if (!class_before(kClasses, cls)) return false;
  enter_back(cls, position);
  return true;
}

bool FreeIndex::next(Position& position) const {
  if (++position.slot < chunks_[position.chunk].count) return true;
  if (++position.ordinal < chunk_count(position.cls)) {
    position.chunk = chunk_at(position.cls, position.ordinal);
    position.slot = 0;
    return true;
  }
  std::uint32_t cls;
  if (!class_at_or_after(position.cls + 1, cls)) return false;
  enter_front(cls, position);
  return true;
}

bool FreeIndex::previous(Position& position) const {
  if (position.slot > 0) {
    --position.slot;
    return true;
  }
  if (position.ordinal > 0) {
    --position.ordinal;
    position.chunk = chunk_at(position.cls, position.ordinal);
    position.slot = chunks_[position.chunk].count - 1;
    return true;
  }
  std::uint32_t cls;
  if (!class_before(position.cls, cls)) return false;
  enter_back(cls, position);
  return true;
}

bool FreeIndex::class_at_or_after(std::uint32_t from, std::uint32_t& cls) const {
  if (from >= kClasses) return false;
  std::uint32_t word = from / 64;
  std::uint64_t bits = inhabited_[word] >> (from % 64) << (from % 64);
  if (bits == 0) {
    const std::uint32_t words = word == 31 ? 0 : inhabited_words_ >> (word + 1) << (word + 1);
    if (words == 0) return false;
    word = static_cast<std::uint32_t>(std::countr_zero(words));
    bits = inhabited_[word];
  }
  cls = word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits));
  return true;
}

bool FreeIndex::class_before(std::uint32_t before, std::uint32_t& cls) const {
  for (std::uint32_t word = (before + 63) / 64; word-- > 0;) {
    std::uint64_t bits = inhabited_[word];
    if (before < (word + 1) * 64) bits &= (std::uint64_t{1} << (before % 64)) - 1;
    if (bits == 0) continue;
    cls = word * 64 + 63 - static_cast<std::uint32_t>(std::countl_zero(bits));
    return true;
  }
  return false;
}

void FreeIndex::enter_front(std::uint32_t cls, Position& position) const {
  position = {cls, 0, chunk_at(cls, 0), 0};
}

void FreeIndex::enter_back(std::uint32_t cls, Position& position) const {
  const std::uint32_t ordinal = chunk_count(cls) - 1;
  const std::uint32_t chunk = chunk_at(cls, ordinal);
  position = {cls, ordinal, chunk, chunks_[chunk].count - 1};
}

}  // namespace foregather::alloc
