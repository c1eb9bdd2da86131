#include "core/alloc/free_index.h"

#include <set>
#include <tuple>
#include <vector>
#include <catch2/catch.hpp>
#include <rapidcheck.h>

namespace foregather::alloc {
namespace {

using Key = std::tuple<Bytes, Address, BlockIndex>;

std::vector<BlockIndex> in_order(const FreeIndex& index) {
  std::vector<BlockIndex> out;
  FreeIndex::Position at;
  for (bool more = index.first(at); more; more = index.next(at)) out.push_back(index.block(at));
  return out;
}

std::vector<BlockIndex> in_reverse(const FreeIndex& index) {
  std::vector<BlockIndex> out;
  FreeIndex::Position at;
  for (bool more = index.last(at); more; more = index.previous(at)) out.push_back(index.block(at));
  return out;
}

TEST_CASE("the smallest block that is large enough, the lowest address among equals") {
  FreeIndex index;
  index.insert(4096, 8192, 1);
  index.insert(4096, 0, 2);
  index.insert(512, 4096, 3);
  index.insert(1 * GiB, 1 << 20, 4);
  FreeIndex::Position at;
  REQUIRE(index.lower_bound(1024, at));
  CHECK(index.block(at) == 2);
  index.erase(at);
  REQUIRE(index.lower_bound(4096, at));
  CHECK(index.block(at) == 1);
  REQUIRE(index.lower_bound(4608, at));
  CHECK(index.block(at) == 4);
  CHECK_FALSE(index.lower_bound(1 * GiB + 512, at));
  CHECK_FALSE(index.lower_bound(FreeIndex::kSizeLimit, at));
  CHECK(index.size() == 3);
}

TEST_CASE("an empty index has no ends") {
  FreeIndex index;
  FreeIndex::Position at;
  CHECK_FALSE(index.first(at));
  CHECK_FALSE(index.last(at));
  CHECK_FALSE(index.lower_bound(512, at));
  index.insert(512, 512, 1);
  index.erase(512, 512);
  CHECK(index.empty());
  CHECK_FALSE(index.first(at));
}

TEST_CASE("sizes from 512 bytes to just below 1 TiB keep their order") {
  FreeIndex index;
  std::vector<BlockIndex> expected;
  std::vector<Bytes> sizes;
  BlockIndex block = 0;
  for (Bytes size = 512; size < FreeIndex::kSizeLimit; size *= 2) {
    for (const Bytes more : {Bytes{0}, Bytes{512}, size / 2, size - 512}) {
      if (more % 512 != 0 || more >= size || (block > 0 && size + more <= sizes.back())) continue;
      expected.push_back(++block);
      sizes.push_back(size + more);
      index.insert(size + more, FreeIndex::kAddressLimit - 512 * (block + 1), block);
    }
  }
  CHECK(in_order(index) == expected);
  CHECK(in_reverse(index) == std::vector<BlockIndex>(expected.rbegin(), expected.rend()));
}

TEST_CASE("thousands of equal sizes stay in order of address") {
  FreeIndex index;
  constexpr BlockIndex kCount = 5000;
  for (BlockIndex i = 0; i < kCount; ++i) {
    const BlockIndex shuffled = i * 1237 % kCount;  // 5000 and 1237 share no divisor
    index.insert(512, 512 * (shuffled + 1), shuffled);
  }
  const std::vector<BlockIndex> order = in_order(index);
  REQUIRE(order.size() == kCount);
  for (BlockIndex i = 0; i < kCount; ++i) REQUIRE(order[i] == i);
  for (BlockIndex i = 0; i < kCount; ++i) {
    FreeIndex::Position at;
    REQUIRE(index.lower_bound(512, at));
    REQUIRE(index.block(at) == i);
    index.erase(at);
  }
  CHECK(index.empty());
}

TEST_CASE("a free index is an ordered set") {
  CHECK(rc::check([] {
    FreeIndex index;
    std::set<Key> set;
    const auto few = *rc::gen::arbitrary<bool>();
    const auto steps = *rc::gen::inRange(1, 800);
    BlockIndex block = 0;
    for (int step = 0; step < steps; ++step) {
      const auto units = few ? *rc::gen::inRange(1, 5) : *rc::gen::inRange(1, 1 << 20);
      const Bytes size = Bytes{512} * units;
      if (*rc::gen::inRange(0, 5) < 3 || set.empty()) {
        const Address address = 512 * Address{*rc::gen::inRange(0, 1 << 30)};
        if (set.lower_bound({size, address, 0}) != set.lower_bound({size, address + 1, 0}))
          continue;
        index.insert(size, address, ++block);
        set.insert({size, address, block});
      } else if (*rc::gen::arbitrary<bool>()) {
        FreeIndex::Position at;
        const auto expected = set.lower_bound({size, 0, 0});
        const bool found = index.lower_bound(size, at);
        RC_ASSERT(found == (expected != set.end()));
        if (!found) continue;
        RC_ASSERT(index.block(at) == std::get<2>(*expected));
        index.erase(at);
        set.erase(expected);
      } else {
        auto gone = set.lower_bound({size, 0, 0});
        if (gone == set.end()) gone = set.begin();
        index.erase(std::get<0>(*gone), std::get<1>(*gone));
        set.erase(gone);
      }
      RC_ASSERT(index.size() == set.size());
    }
    std::vector<BlockIndex> expected;
    for (const Key& key : set) expected.push_back(std::get<2>(key));
    RC_ASSERT(in_order(index) == expected);
    const FreeIndex copy = index;
    RC_ASSERT(std::vector<BlockIndex>(expected.rbegin(), expected.rend()) == in_reverse(copy));
  }));
}

}  // namespace
}  // namespace foregather::alloc
