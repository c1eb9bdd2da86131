"""Planted mistakes: name, then edits (file below core/alloc, text, replacement).

They are mistakes that replays of recorded snapshots of real programs can tell apart, one rule of the
allocator each.
"""

NO_FAST_PATH = ("settings.cpp", "const bool plain = !config_.expandable_segments", "const bool plain = false && !config_.expandable_segments")
SEARCH = "  if (!free.lower_bound(request.size, at)) return false;\n\n  const auto block_at"


def chosen(better):
    """A search that looks at every free block that is large enough and keeps the better one."""
    return ("caching_allocator.cpp", SEARCH, """  bool found = false;
  FreeIndex::Position each;
  for (bool more = free.first(each); more; more = free.next(each)) {
    const Block& block = blocks_[free.block(each)];
    if (block.size < request.size) continue;
    if (!found || (%s)) at = each;
    found = true;
  }
  if (!found) return false;

  const auto block_at""" % better)


KEPT = "blocks_[free.block(at)]"
SPLIT = "return request.size < max_split_ ? kSmallSize + 1 : kNever;"

MISTAKES = [
    ("equal sizes: highest address",
     [NO_FAST_PATH, chosen(f"block.size < {KEPT}.size || (block.size == {KEPT}.size && block.address > {KEPT}.address)")]),
    ("first fit by address", [NO_FAST_PATH, chosen(f"block.address < {KEPT}.address")]),
    ("last fit", [NO_FAST_PATH, chosen(f"block.address > {KEPT}.address")]),
    ("worst fit", [NO_FAST_PATH, chosen(f"block.size > {KEPT}.size")]),
    ("search ignores streams",
     [("caching_allocator.h", "if (stream < lists.size() && lists[stream] != kNone)",
       "stream = 0;\n    if (stream < lists.size() && lists[stream] != kNone)")]),
    ("large split at a remainder of 1 MiB",
     [("caching_allocator.h", SPLIT, SPLIT.replace("kSmallSize + 1", "kSmallSize"))]),
    ("large split at 512 bytes",
     [("caching_allocator.h", SPLIT, SPLIT.replace("kSmallSize + 1", "kMinBlockSize"))]),
    ("large split only above 2 MiB",
     [("caching_allocator.h", SPLIT, SPLIT.replace("kSmallSize + 1", "2 * kSmallSize + 1"))]),
    ("hands out the tail",
     [("caching_allocator.h", "free.move(at, remaining, block.address + request.size);",
       "free.move(at, remaining, block.address);"),
      ("caching_allocator.h", "  front.address = rest.address;\n", "  front.address = rest.address + rest.size - size;\n"),
      ("caching_allocator.h", "  front.previous = rest.previous;\n  front.next = from;\n",
       "  front.previous = from;\n  front.next = rest.next;\n"),
      ("caching_allocator.h",
       "  blocks_[rest.previous].next = index;\n  rest.previous = index;\n  rest.address += size;\n",
       "  blocks_[rest.next].previous = index;\n  rest.next = index;\n")]),
    ("1 MiB goes to the large pool",
     [("rounding.h", "return rounded <= kSmallSize ? PoolKind::small", "return rounded < kSmallSize ? PoolKind::small")]),
    ("10 MiB takes a 20 MiB segment",
     [("rounding.h", "rounded < kMinLargeAlloc ? large_segment_", "rounded <= kMinLargeAlloc ? large_segment_")]),
    ("big segments are not rounded to 2 MiB",
     [("rounding.h", "large_segment_ : round_up(rounded, kRoundLarge)", "large_segment_ : rounded")]),
    ("10 to 20 MiB takes a 20 MiB segment",
     [("rounding.h", "rounded < kMinLargeAlloc ? large_segment_", "rounded < 2 * kMinLargeAlloc ? large_segment_")]),
    ("releases the small pool first",
     [("release.cpp", "    release_pool_blocks(1);\n    release_pool_blocks(0);\n",
       "    release_pool_blocks(0);\n    release_pool_blocks(1);\n")]),
    ("releases in order of address",
     [("release.cpp", "    for (bool more = free.first(at); more; more = free.next(at)) out.push_back(free.block(at));\n  }\n",
       "    for (bool more = free.first(at); more; more = free.next(at)) out.push_back(free.block(at));\n  }\n"
       "  std::sort(out.begin(), out.end(), [this](BlockIndex a, BlockIndex b) { return blocks_[a].address < blocks_[b].address; });\n")]),
    ("releases the biggest first",
     [("release.cpp", "    for (bool more = free.first(at); more; more = free.next(at)) out.push_back(free.block(at));\n  }\n",
       "    for (bool more = free.first(at); more; more = free.next(at)) out.push_back(free.block(at));\n  }\n"
       "  std::reverse(out.begin(), out.end());\n")]),
    ("never releases", [("growth.cpp", "    release_cached();\n", "")]),
    ("release keeps small segments", [("release.cpp", "    release_pool_blocks(0);\n", "")]),
    ("no coalescing",
     [("caching_allocator.h", "const bool join_before = before.state", "const bool join_before = false && before.state"),
      ("caching_allocator.h", "const bool join_after = after.state", "const bool join_after = false && after.state")]),
    ("no coalescing with the left neighbour",
     [("caching_allocator.h", "const bool join_before = before.state", "const bool join_before = false && before.state")]),
    ("no coalescing with the right neighbour",
     [("caching_allocator.h", "const bool join_after = after.state", "const bool join_after = false && after.state")]),
    ("expandable: best fit does not look at room to grow",
     [("caching_allocator.cpp", "while (block_at(at).expandable() && free.next(next) &&",
       "while (false && block_at(at).expandable() && free.next(next) &&")]),
    ("expandable: 2 MiB granules in the large pool",
     [("rounding.h", "return kind == PoolKind::small ? kSmallBuffer : large_segment_;", "return kSmallBuffer;")]),
    ("expandable: ignores the idle block before the unmapped one",
     [("expandable.cpp", "    if (blocks_[before].idle()) start = before;\n", "    (void)before;\n")]),
    ("expandable: maps the size of a segment",
     [("expandable.cpp", "const Bytes missing = request.size - blocks_[candidate].size;",
       "const Bytes missing = rounding_.segment_size(request.size);")]),
    ("expandable: splits by the rule of the large pool",
     [("caching_allocator.h", "if (request.pool % 2 == 0 || request.expandable) return kMinBlockSize;",
       "if (request.pool % 2 == 0) return kMinBlockSize;")]),
]
