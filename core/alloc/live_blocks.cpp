#include "core/alloc/live_blocks.h"

namespace foregather::alloc {

std::optional<LiveBlock> LiveBlocks::find(Address recorded) const {
  const auto found = blocks_.find(recorded);
  if (found == blocks_.end()) return std::nullopt;
  return found->second;
}

std::optional<LiveBlock> LiveBlocks::free(Address recorded) {
  const auto live = find(recorded);
  if (!live || live->waits_for) return std::nullopt;
  allocator_.free(live->block);
  blocks_.erase(recorded);
  return live;
}

std::optional<LiveBlock> LiveBlocks::request_free(Address recorded) {
  const auto found = blocks_.find(recorded);
  if (found == blocks_.end() || found->second.waits_for) return std::nullopt;
  found->second.waits_for = clock_.acquire();
  allocator_.record_stream(found->second.block, found->second.waits_for);
  allocator_.free(found->second.block);
  return found->second;
}

std::optional<LiveBlock> LiveBlocks::complete_free(Address recorded) {
  const auto live = find(recorded);
  if (!live || !live->waits_for) return std::nullopt;
  clock_.complete(live->waits_for);
  allocator_.process_events();
  clock_.release(live->waits_for);
  blocks_.erase(recorded);
  return live;
}

}  // namespace foregather::alloc
