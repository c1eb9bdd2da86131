#include "core/alloc/simulated_memory.h"

#include <algorithm>
#include <cassert>

#include "core/alloc/free_index.h"
#include "core/alloc/rounding.h"

namespace foregather::alloc {
namespace {

constexpr Bytes kPage = 2 * MiB;
/// Room for one reservation: 9/8 of the largest device.
constexpr Bytes kArenaRoom = Bytes{1} << 41;

}  // namespace

SimulatedMemory::SimulatedMemory(Bytes capacity, Bytes total, const Options& options)
    : capacity_(capacity),
      total_(total),
      options_(options),
      holes_{{options.base, options.arena_base - options.base}} {
  assert(capacity >= 0 && capacity <= kUnlimited && total >= 0 && total <= kUnlimited);
  assert(options.base > 0 && options.base % kPage == 0);
}

std::optional<Address> SimulatedMemory::allocate(Bytes size, StreamId) {
  if (size > available()) return std::nullopt;
  const Bytes taken = round_up(size, kPage);
  const auto hole = std::find_if(holes_.begin(), holes_.end(),
                                 [&](const Hole& range) { return range.size >= taken; });
  if (hole == holes_.end()) return std::nullopt;
  const Address address = hole->address;
  hole->address += taken;
  hole->size -= taken;
  if (hole->size == 0) holes_.erase(hole);
  used_ += size;
  return address;
}

void SimulatedMemory::release(Address address, Bytes size) {
  used_ -= size;
  if (!options_.reuse) return;
  const Bytes freed = round_up(size, kPage);
  auto after =
      std::upper_bound(holes_.begin(), holes_.end(), address,
                       [](Address wanted, const Hole& range) { return wanted < range.address; });
  after = holes_.insert(after, Hole{address, freed});
  const auto join_next = [this](std::vector<Hole>::iterator hole) {
    const auto next = hole + 1;
    if (next == holes_.end() || hole->address + hole->size != next->address) return;
    hole->size += next->size;
    holes_.erase(next);
  };
  join_next(after);
  if (after != holes_.begin()) join_next(after - 1);
}

void SimulatedMemory::adopt_segment(Address address, Bytes size) {
  const Bytes taken = round_up(size, kPage);
  auto hole =
      std::upper_bound(holes_.begin(), holes_.end(), address,
                       [](Address wanted, const Hole& range) { return wanted < range.address; });
  assert(hole != holes_.begin());
  --hole;
  const Address end = hole->address + hole->size;
  assert(address + taken <= end);
  const Hole rest{address + taken, end - address - taken};
  hole->size = address - hole->address;
  if (hole->size == 0)
    hole = holes_.erase(hole);
  else
    ++hole;
  if (rest.size > 0) holes_.insert(hole, rest);
  used_ += size;
}

std::optional<Address> SimulatedMemory::reserve([[maybe_unused]] Bytes size, StreamId) {
  assert(size <= arena_room());
  const auto spare = std::find(arenas_.begin(), arenas_.end(), false);
  const Bytes number = spare - arenas_.begin();
  const Bytes row = number / arenas_in_row();
  if ((row + 1) * arena_room() > options_.arena_stride) return std::nullopt;
  const Address address = options_.arena_base +
                          (number % arenas_in_row() + 1) * options_.arena_stride +
                          row * arena_room();
  if (spare == arenas_.end()) {
    arenas_.push_back(true);
  } else {
    *spare = true;
  }
  return address;
}

void SimulatedMemory::unreserve(Address address, Bytes) {
  const Bytes offset = address - options_.arena_base;
  const Bytes row = offset % options_.arena_stride / arena_room();
  const Bytes number = row * arenas_in_row() + offset / options_.arena_stride - 1;
  assert(number >= 0 && arenas_[static_cast<std::size_t>(number)]);
  arenas_[static_cast<std::size_t>(number)] = false;
}

Bytes SimulatedMemory::arena_room() const { return std::min(options_.arena_stride, kArenaRoom); }

Bytes SimulatedMemory::arenas_in_row() const {
  return (FreeIndex::kAddressLimit - options_.arena_base) / options_.arena_stride - 1;
}

bool SimulatedMemory::map(Address, Bytes size, Bytes) {
  if (size > available()) return false;
  used_ += size;
  return true;
}

void SimulatedMemory::unmap(Address, Bytes size) { used_ -= size; }

}  // namespace foregather::alloc
