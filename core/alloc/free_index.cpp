// Classes of many chunks, and walking.
#include "core/alloc/free_index.h"

namespace foregather::alloc {

std::size_t FreeIndex::size() const {
  std::size_t entries = 0;
  std::uint32_t cls = 0;
  for (bool more = class_at_or_after(0, cls); more; more = class_at_or_after(cls + 1, cls)) {
    for (std::uint32_t i = 0; i < chunk_count(cls); ++i) entries += chunks_[chunk_at(cls, i)].count;
  }
  return entries;
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

// The class has no chunk, a full one, or a directory.
void FreeIndex::insert_elsewhere(const Place& at, BlockIndex block) {
  if (heads_[at.cls] == kUnused) {
    mark_inhabited(at.cls);
    heads_[at.cls] = new_chunk();
    insert_into_chunk(chunks_[heads_[at.cls]], at.key, block);
    return;
  }
  if (!has_directory(at.cls)) {
    std::uint32_t id;
    if (spare_directories_.empty()) {
      id = static_cast<std::uint32_t>(directories_.size());
      directories_.emplace_back();
    } else {
      id = spare_directories_.back();
      spare_directories_.pop_back();
    }
    directories_[id].assign(1, heads_[at.cls]);
    heads_[at.cls] = kDirectory | id;
  }
  const std::uint32_t ordinal = ordinal_of(at.cls, at.key);
  std::uint32_t chunk = directory(at.cls)[ordinal];
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
    Directory& chunks = directory(at.cls);
    chunks.insert(chunks.begin() + ordinal + 1, upper);
    if (to.keys[0] < at.key) chunk = upper;
  }
  insert_into_chunk(chunks_[chunk], at.key, block);
}

void FreeIndex::erase_in_directory(const Position& position) {
  Directory& chunks = directory(position.cls);
  Chunk& chunk = chunks_[position.chunk];
  erase_from_chunk(chunk, position.slot);
  // Join with the chunk after it when both fit into half a chunk, so that few chunks are sparse.
  if (position.ordinal + 1 < chunks.size()) {
    const Chunk& after = chunks_[chunks[position.ordinal + 1]];
    if (chunk.count + after.count <= kChunkEntries / 2) {
      std::copy_n(after.keys.begin(), after.count + 1, chunk.keys.begin() + chunk.count);
      std::copy_n(after.blocks.begin(), after.count, chunk.blocks.begin() + chunk.count);
      chunk.count += after.count;
      remove_chunk(chunks, position.ordinal + 1);
    }
  }
  if (chunk.count == 0) remove_chunk(chunks, position.ordinal);
  if (chunks.size() == 1) {
    const std::uint32_t id = heads_[position.cls] & ~kDirectory;
    heads_[position.cls] = chunks[0];
    spare_directories_.push_back(id);
  }
}

void FreeIndex::remove_chunk(Directory& directory, std::uint32_t ordinal) {
  spare_chunks_.push_back(directory[ordinal]);
  directory.erase(directory.begin() + ordinal);
}

std::uint32_t FreeIndex::chunk_count(std::uint32_t cls) const {
  return has_directory(cls) ? static_cast<std::uint32_t>(directory(cls).size()) : 1;
}

// The last chunk whose first key is not above `key`, or the first chunk.
std::uint32_t FreeIndex::ordinal_of(std::uint32_t cls, std::uint64_t key) const {
  const Directory& chunks = directory(cls);
  const auto after = std::upper_bound(
      chunks.begin() + 1, chunks.end(), key,
      [this](std::uint64_t value, std::uint32_t chunk) { return value < chunks_[chunk].keys[0]; });
  return static_cast<std::uint32_t>(after - chunks.begin() - 1);
}

bool FreeIndex::lower_bound_in_directory(const Place& at, Position& position) const {
  const std::uint32_t ordinal = ordinal_of(at.cls, at.key);
  const std::uint32_t chunk = directory(at.cls)[ordinal];
  position = {at.cls, ordinal, chunk, slot_of(chunks_[chunk], at.key)};
  if (position.slot < chunks_[chunk].count) return true;
  if (++position.ordinal == directory(at.cls).size()) return false;
  position.chunk = directory(at.cls)[position.ordinal];
  position.slot = 0;
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

void FreeIndex::enter_back(std::uint32_t cls, Position& position) const {
  const std::uint32_t ordinal = chunk_count(cls) - 1;
  const std::uint32_t chunk = chunk_at(cls, ordinal);
  position = {cls, ordinal, chunk, chunks_[chunk].count - 1};
}

}  // namespace foregather::alloc
