#include "core/alloc/adopted_memory.h"

namespace foregather::alloc {
namespace {

SimulatedMemory::Options options_at(Address base) {
  SimulatedMemory::Options options;
  options.base = base;
  options.reuse = false;
  return options;
}

}  // namespace

AdoptedMemory::AdoptedMemory(const Layout& existing, Bytes capacity, Address base)
    : memory_(capacity, capacity, options_at(base)) {
  for (const SegmentLayout& segment : existing) {
    existing_.insert(segment.address);
    for (const BlockLayout& block : segment.blocks)
      if (block.state != BlockState::unmapped) memory_.adopt_mapped(block.size);
  }
}

void AdoptedMemory::release(Address address, Bytes size) {
  if (existing_.erase(address) > 0)
    memory_.unmap(address, size);
  else
    memory_.release(address, size);
}

void AdoptedMemory::unreserve(Address address, Bytes size) {
  if (existing_.erase(address) == 0) memory_.unreserve(address, size);
}

}  // namespace foregather::alloc
