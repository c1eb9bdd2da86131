#include "core/alloc/pool.h"

#include <algorithm>
#include <cassert>

namespace foregather::alloc {

std::vector<UnmappedList::Entry>::iterator UnmappedList::at_or_after(Address address) {
  return std::lower_bound(
      entries_.begin(), entries_.end(), address,
      [](const Entry& entry, Address wanted) { return entry.address < wanted; });
}

void UnmappedList::insert(Address address, BlockIndex block) {
  entries_.insert(at_or_after(address), Entry{address, block});
}

void UnmappedList::erase(Address address) {
  const auto entry = at_or_after(address);
  assert(entry != entries_.end() && entry->address == address);
  entries_.erase(entry);
}

}  // namespace foregather::alloc
