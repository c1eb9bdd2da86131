// The small tables below the allocator.
#include <vector>
#include <catch2/catch.hpp>

#include "core/alloc/block_table.h"
#include "core/alloc/event_queues.h"
#include "core/alloc/pool.h"
#include "core/alloc/stream_uses.h"

namespace foregather::alloc {
namespace {

std::vector<std::uint32_t> streams(const StreamUses& uses, std::uint32_t list) {
  std::vector<std::uint32_t> out;
  for (; list != kNone; list = uses[list].next) out.push_back(uses[list].stream);
  return out;
}

TEST_CASE("block rows are used again and the border stays") {
  BlockTable table;
  const BlockIndex a = table.acquire();
  const BlockIndex b = table.acquire();
  CHECK(a == 1);
  CHECK(b == 2);
  table[a].size = 512;
  CHECK(table.in_use(a));
  table.release(a);
  CHECK_FALSE(table.in_use(a));
  CHECK(table.acquire() == a);
  CHECK(table.rows() == 3);
  CHECK(table[0].state == BlockState::allocated);
}

TEST_CASE("a stream is listed once, in order of its first use") {
  StreamUses uses;
  std::uint32_t list = kNone;
  std::uint32_t other = kNone;
  uses.add(list, 3, false);
  uses.add(other, 9, false);
  uses.add(list, 1, true);
  uses.add(list, 3, false);
  CHECK(streams(uses, list) == std::vector<std::uint32_t>{3, 1});
  uses.drop_captured(list);
  CHECK(streams(uses, list) == std::vector<std::uint32_t>{3});
  uses.add(list, 3, true);
  uses.drop_captured(list);
  CHECK(list == kNone);
  uses.clear(other);
  CHECK(other == kNone);
  uses.add(list, 4, false);
  CHECK(streams(uses, list) == std::vector<std::uint32_t>{4});
}

TEST_CASE("event queues are first in, first out for each stream") {
  EventQueues queues;
  CHECK(queues.empty());
  for (BlockIndex block = 1; block <= 300; ++block) queues.push(2, {{block}, block});
  queues.push(0, {{7}, 7});
  CHECK(queues.size() == 301);
  CHECK(queues.streams() == 3);
  CHECK(queues.empty(1));
  for (BlockIndex block = 1; block <= 300; ++block) {
    REQUIRE(queues.front(2).block == block);
    REQUIRE(queues.entries(2).size() == 301 - block);
    queues.pop(2);
  }
  CHECK(queues.empty(2));
  CHECK_FALSE(queues.empty());
  queues.pop(0);
  CHECK(queues.empty());
}

TEST_CASE("unmapped blocks are in order of address") {
  UnmappedList list;
  list.insert(300, 3);
  list.insert(100, 1);
  list.insert(200, 2);
  REQUIRE(list.size() == 3);
  CHECK(list[0] == 1);
  CHECK(list[2] == 3);
  list.erase(200);
  CHECK(list[1] == 3);
}

}  // namespace
}  // namespace foregather::alloc
