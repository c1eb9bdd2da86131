#include "core/alloc/live_blocks.h"

namespace foregather::alloc {

void LiveBlocks::add(Address recorded, const LiveBlock& block) {
  const auto [known, is_new] = blocks_.try_emplace(recorded, block);
  if (!is_new && known->second.waits_for) --waiting_;
  known->second = block;
  if (block.waits_for) ++waiting_;
}

bool LiveBlocks::is_waiting(Address recorded) const {
  const auto live = find(recorded);
  return live && live->waits_for;
}

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
  ++waiting_;
  allocator_.record_stream(found->second.block, found->second.waits_for);
  allocator_.free(found->second.block);
  return found->second;
}

std::optional<LiveBlock> LiveBlocks::complete_free(Address recorded) {
  const auto live = take_waiting(recorded);
  if (live) complete(*live);
  return live;
}

std::optional<LiveBlock> LiveBlocks::take_waiting(Address recorded) {
  const auto live = find(recorded);
  if (!live || !live->waits_for) return std::nullopt;
  --waiting_;
  blocks_.erase(recorded);
  return live;
}

void LiveBlocks::complete(const LiveBlock& block) {
  clock_.complete(block.waits_for);
  allocator_.process_events();
  clock_.release(block.waits_for);
}

}  // namespace foregather::alloc
