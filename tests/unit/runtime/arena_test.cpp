#include "runtime/host/arena.h"

#include <algorithm>
#include <vector>
#include <catch2/catch.hpp>

using namespace foregather;
using runtime::Arena;

namespace {

constexpr Bytes kPage = 2 * MiB;

struct Counted {
  int finished = 0;
  std::unique_ptr<Arena> arena;
  explicit Counted(Bytes capacity) {
    auto made = Arena::create(capacity, [this] { ++finished; });
    if (!made) FAIL(made.error().text());
    arena = std::move(*made);
  }
};

std::byte* at(alloc::Address address) { return reinterpret_cast<std::byte*>(address); }

bool is_all(alloc::Address address, Bytes size, std::byte value) {
  return std::all_of(at(address), at(address) + size,
                     [value](std::byte each) { return each == value; });
}

}  // namespace

TEST_CASE("memory of a played device comes zeroed, and goes back when its users are done") {
  Counted device(8 * MiB);
  Arena& arena = *device.arena;
  const auto first = arena.allocate(6 * MiB, alloc::StreamId(0));
  REQUIRE(first);
  CHECK(is_all(*first, 6 * MiB, std::byte{0}));
  std::fill_n(at(*first), 6 * MiB, std::byte{7});
  CHECK(arena.available() == 2 * MiB);
  CHECK_FALSE(arena.allocate(4 * MiB, alloc::StreamId(0)));
  arena.release(*first, 6 * MiB);
  CHECK(device.finished == 1);
  CHECK(arena.available() == 8 * MiB);
  const auto second = arena.allocate(4 * MiB, alloc::StreamId(0));
  REQUIRE(second);
  CHECK(*second == *first);
  CHECK(is_all(*second, 4 * MiB, std::byte{0}));
}

TEST_CASE("pages of an expandable segment come and go in place") {
  Counted device(8 * MiB);
  Arena& arena = *device.arena;
  const auto base = arena.reserve(16 * MiB, alloc::StreamId(0));
  REQUIRE(base);
  CHECK(arena.available() == 8 * MiB);  // addresses alone
  REQUIRE(arena.map(*base + kPage, 2 * kPage, kPage));
  CHECK(arena.available() == 4 * MiB);
  CHECK_FALSE(arena.map(*base + 3 * kPage, 3 * kPage, kPage));  // more than there is
  std::fill_n(at(*base + kPage), 2 * kPage, std::byte{7});
  arena.unmap(*base + kPage, kPage);
  CHECK(device.finished == 1);
  CHECK(arena.available() == 6 * MiB);
  CHECK(is_all(*base + 2 * kPage, kPage, std::byte{7}));
  REQUIRE(arena.map(*base + kPage, kPage, kPage));
  CHECK(is_all(*base + kPage, kPage, std::byte{0}));
  arena.unmap(*base + kPage, 2 * kPage);
  arena.unreserve(*base, 16 * MiB);
  CHECK(arena.reserve(16 * MiB, alloc::StreamId(1)) == base);
}

TEST_CASE("a played device has addresses for so many expandable segments, and says when they end") {
  Counted device(8 * MiB);
  std::vector<alloc::Address> bases;
  while (const auto base = device.arena->reserve(16 * MiB, alloc::StreamId(0))) {
    bases.push_back(*base);
    REQUIRE(bases.size() <= 32);
  }
  CHECK(bases.size() >= 16);
  std::ranges::sort(bases);
  CHECK(std::ranges::adjacent_find(bases, [](alloc::Address a, alloc::Address b) {
          return b - a < 16 * MiB;
        }) == bases.end());
  for (const alloc::Address base : bases)
    REQUIRE(device.arena->map(base, kPage, kPage) == (device.arena->available() >= kPage));
  device.arena->unreserve(bases.back(), 16 * MiB);
  CHECK(device.arena->reserve(16 * MiB, alloc::StreamId(0)) == bases.back());
}
