#include "core/alloc/simulated_memory.h"

#include <catch2/catch.hpp>

namespace foregather::alloc {
namespace {

constexpr StreamId kStream{std::size_t{0}};

TEST_CASE("addresses ascend on 2 MiB boundaries and holes are used again, the lowest first") {
  SimulatedMemory memory(100 * MiB);
  const Address base = Address{1} << 40;
  CHECK(memory.allocate(3 * MiB, kStream) == base);
  CHECK(memory.allocate(10 * MiB, kStream) == base + 4 * MiB);
  CHECK(memory.allocate(20 * MiB, kStream) == base + 14 * MiB);
  memory.release(base + 4 * MiB, 10 * MiB);
  CHECK(memory.used() == 23 * MiB);
  CHECK(memory.allocate(12 * MiB, kStream) == base + 34 * MiB);
  CHECK(memory.allocate(4 * MiB, kStream) == base + 4 * MiB);
  CHECK(memory.allocate(6 * MiB, kStream) == base + 8 * MiB);
}

TEST_CASE("neighbouring holes join") {
  SimulatedMemory memory(100 * MiB);
  const Address a = *memory.allocate(2 * MiB, kStream);
  const Address b = *memory.allocate(2 * MiB, kStream);
  const Address c = *memory.allocate(2 * MiB, kStream);
  memory.release(a, 2 * MiB);
  memory.release(c, 2 * MiB);
  memory.release(b, 2 * MiB);
  CHECK(memory.allocate(50 * MiB, kStream) == a);
}

TEST_CASE("capacity limits segments and mapped memory together") {
  SimulatedMemory memory(100 * MiB, 200 * MiB, {});
  CHECK(memory.total() == 200 * MiB);
  CHECK(memory.allocate(60 * MiB, kStream));
  const std::optional<Address> range = memory.reserve(225 * MiB, kStream);
  REQUIRE(range);
  CHECK(memory.map(*range, 40 * MiB, 20 * MiB));
  CHECK_FALSE(memory.map(*range + 40 * MiB, 20 * MiB, 20 * MiB));
  CHECK_FALSE(memory.allocate(2 * MiB, kStream));
  memory.unmap(*range, 20 * MiB);
  CHECK(memory.available() == 20 * MiB);
  memory.change_capacity(-30 * MiB);
  CHECK_FALSE(memory.allocate(2 * MiB, kStream));
}

TEST_CASE("without reuse addresses of segments only ascend") {
  SimulatedMemory memory(100 * MiB, 100 * MiB, {.reuse = false});
  const Address a = *memory.allocate(2 * MiB, kStream);
  memory.release(a, 2 * MiB);
  CHECK(memory.allocate(2 * MiB, kStream) == a + 2 * MiB);
  const Address first = *memory.reserve(100 * MiB, kStream);
  memory.unreserve(first, 100 * MiB);
  CHECK(*memory.reserve(100 * MiB, kStream) == first);
}

TEST_CASE("reservations are used again and end where addresses end") {
  SimulatedMemory memory(100 * MiB);
  const Address first = *memory.reserve(100 * MiB, kStream);
  CHECK(first == (Address{1} << 50) + (Address{1} << 44));
  CHECK(*memory.reserve(100 * MiB, kStream) > first);
  memory.unreserve(first, 100 * MiB);
  CHECK(*memory.reserve(100 * MiB, kStream) == first);
  int reserved = 2;
  while (memory.reserve(100 * MiB, kStream)) ++reserved;
  CHECK(reserved == 63 * 8);
}

TEST_CASE("adopted segments are in the way") {
  SimulatedMemory memory(100 * MiB);
  const Address base = Address{1} << 40;
  memory.adopt_segment(base + 4 * MiB, 6 * MiB);
  CHECK(memory.used() == 6 * MiB);
  CHECK(memory.allocate(6 * MiB, kStream) == base + 10 * MiB);
  CHECK(memory.allocate(4 * MiB, kStream) == base);
  memory.release(base + 4 * MiB, 6 * MiB);
  CHECK(memory.allocate(6 * MiB, kStream) == base + 4 * MiB);
}

}  // namespace
}  // namespace foregather::alloc
