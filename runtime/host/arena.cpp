#include "runtime/host/arena.h"

#include <sys/mman.h>

#include <cstring>
#include <memory>
#include <utility>

#include "core/base/text.h"

namespace foregather::runtime {
namespace {

constexpr Bytes kPage = 2 * MiB;
/// Segments may lie around holes: addresses for so many times the capacity.
constexpr Bytes kRoom = 4;
/// Expandable segments, each with a reservation of its own: two pools for some streams.
constexpr Bytes kReservations = 16;

Bytes rounded(Bytes bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

Result<std::unique_ptr<Arena>> Arena::create(Bytes capacity, std::function<void()> finish_work) {
  const Bytes segments = kRoom * rounded(capacity) + kPage;
  const Bytes stride = 2 * rounded(capacity) + kPage;
  const Bytes reserved = segments + (kReservations + 1) * stride + kPage;
  void* const at = ::mmap(nullptr, static_cast<std::size_t>(reserved), PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED)
    return fail_work("", "no addresses for a device of {} could be reserved",
                     format_bytes(capacity));
  alloc::SimulatedMemory::Options options;
  options.base = rounded(reinterpret_cast<alloc::Address>(at));
  options.arena_base = options.base + segments;
  options.arena_stride = stride;
  return std::unique_ptr<Arena>(
      new Arena(static_cast<std::byte*>(at), reserved, capacity, options, std::move(finish_work)));
}

Arena::Arena(std::byte* begin, Bytes reserved, Bytes capacity,
             const alloc::SimulatedMemory::Options& options, std::function<void()> finish_work)
    : begin_(begin),
      reserved_(reserved),
      addresses_(capacity, capacity, options),
      finish_work_(std::move(finish_work)) {}

Arena::~Arena() { ::munmap(begin_, static_cast<std::size_t>(reserved_)); }

// Touched at once: a device's memory is there when the driver hands it out.
bool Arena::back(alloc::Address address, Bytes size) {
  auto* const at = reinterpret_cast<std::byte*>(address);
  if (at < begin_ || at + size > begin_ + reserved_) return false;
  if (::mprotect(at, static_cast<std::size_t>(size), PROT_READ | PROT_WRITE) != 0) return false;
  std::memset(at, 0, static_cast<std::size_t>(size));
  return true;
}

void Arena::drop(alloc::Address address, Bytes size) {
  finish_work_();
  void* const at = reinterpret_cast<void*>(address);
  ::madvise(at, static_cast<std::size_t>(size), MADV_DONTNEED);
  ::mprotect(at, static_cast<std::size_t>(size), PROT_NONE);
}

std::optional<alloc::Address> Arena::allocate(Bytes size, alloc::StreamId stream) {
  const auto address = addresses_.allocate(size, stream);
  if (address && !back(*address, size)) {
    addresses_.release(*address, size);
    return std::nullopt;
  }
  return address;
}

void Arena::release(alloc::Address address, Bytes size) {
  drop(address, size);
  addresses_.release(address, size);
}

std::optional<alloc::Address> Arena::reserve(Bytes size, alloc::StreamId stream) {
  const auto address = addresses_.reserve(size, stream);
  const auto end = reinterpret_cast<alloc::Address>(begin_) + reserved_;
  if (address && *address + size > end) {
    addresses_.unreserve(*address, size);
    return std::nullopt;
  }
  return address;
}

void Arena::unreserve(alloc::Address address, Bytes size) { addresses_.unreserve(address, size); }

bool Arena::map(alloc::Address address, Bytes size, Bytes granule) {
  if (!addresses_.map(address, size, granule)) return false;
  if (back(address, size)) return true;
  addresses_.unmap(address, size);
  return false;
}

void Arena::unmap(alloc::Address address, Bytes size) {
  drop(address, size);
  addresses_.unmap(address, size);
}

}  // namespace foregather::runtime
