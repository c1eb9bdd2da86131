#include "core/alloc/rewind.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "core/alloc/free_index.h"
#include "core/alloc/recorded_arenas.h"
#include "core/alloc/rounding.h"

namespace foregather::alloc {
namespace {

constexpr Bytes kLeastLarge = kSmallSize + kMinBlockSize;  ///< no large block is smaller

/// The state, walking backwards. Unmapped memory is no part.
class Rewinder {
 public:
  explicit Rewinder(const Recording& recording)
      : recording_(recording), arenas_(recording), rounding_(recording.config) {}

  Result<StartState> run() {
    if (Status taken = take_end(); !taken) return tl::unexpected(taken.error());
    for (at_ = recording_.events.size(); at_-- > 0;) undo(recording_.events[at_]);
    merge_free();
    return start();
  }

 private:
  /// A segment, or all expandable ranges of one stream and pool.
  struct Group {
    StreamId stream;
    PoolKind kind = PoolKind::large;
    bool expandable = false;
    Address address = 0;
    Bytes size = 0;
  };
  struct Part {
    Bytes size = 0;
    Bytes requested = 0;
    std::uint32_t group = 0;
    BlockState state = BlockState::free;
    bool carved = false;  ///< its free is in the window: its size was computed
  };
  using Parts = std::map<Address, Part>;

  // Notes what is wrong with the event; it is left out. What then does not fit follows from it.
  template <class... Args>
  void misfit(fmt::format_string<Args...> format, Args&&... args) {
    if (contradiction_) return;
    const RecordedEvent& event = recording_.events[at_];
    contradiction_ = Contradiction{
        at_, fmt::format("{} of {} bytes at {:#x}: {}", name(event.action), event.size,
                         event.address, fmt::format(format, std::forward<Args>(args)...))};
  }

  std::uint32_t add_group(const Group& group) {
    groups_.push_back(group);
    return static_cast<std::uint32_t>(groups_.size() - 1);
  }

  std::uint32_t arena_group(StreamId stream, PoolKind kind) {
    for (std::uint32_t i = 0; i < groups_.size(); ++i)
      if (groups_[i].expandable && groups_[i].stream == stream && groups_[i].kind == kind) return i;
    return add_group({stream, kind, true, 0, 0});
  }

  Status take_end() {
    Address end = 0;
    for (const SegmentLayout& segment : recording_.at_end) {
      if (segment.address <= 0 || segment.address % kMinBlockSize != 0 || segment.size <= 0 ||
          segment.size >= FreeIndex::kSizeLimit ||
          segment.address >= FreeIndex::kAddressLimit - segment.size)
        return fail("the segment at {:#x} has {} bytes, expected the address and size of a device",
                    segment.address, segment.size);
      if (segment.address < end)
        return fail("the segment at {:#x} overlaps the one before it", segment.address);
      end = segment.address + segment.size;
      const std::uint32_t group =
          segment.expandable
              ? arena_group(segment.stream, segment.kind)
              : add_group({segment.stream, segment.kind, false, segment.address, segment.size});
      Address next = segment.address;
      for (const BlockLayout& block : segment.blocks) {
        if (block.address != next || block.size <= 0 || block.size % kMinBlockSize != 0 ||
            block.size > segment.size)
          return fail("the blocks of the segment at {:#x} do not fill it in order",
                      segment.address);
        next += block.size;
        add_end_part(block, group);
      }
      if (next != end)
        return fail("the blocks of the segment at {:#x} do not fill it", segment.address);
    }
    return {};
  }

  void add_end_part(const BlockLayout& block, std::uint32_t group) {
    if (block.state == BlockState::free) {
      add_free(block.address, block.size, group);
      return;
    }
    parts_.emplace(block.address, Part{block.size, block.requested, group, block.state, false});
  }

  // --- parts ---

  Parts::iterator containing(Address address) {
    auto part = parts_.upper_bound(address);
    if (part == parts_.begin()) return parts_.end();
    --part;
    return address < part->first + part->second.size ? part : parts_.end();
  }

  // The neighbour behind, if it touches.
  Parts::iterator behind(Parts::iterator part) {
    const auto next = std::next(part);
    const bool touches = next != parts_.end() && next->first == part->first + part->second.size &&
                         next->second.group == part->second.group;
    return touches ? next : parts_.end();
  }

  Parts::iterator before(Parts::iterator part) {
    if (part == parts_.begin()) return parts_.end();
    const auto previous = std::prev(part);
    const bool touches = previous->first + previous->second.size == part->first &&
                         previous->second.group == part->second.group;
    return touches ? previous : parts_.end();
  }

  void absorb_behind(Parts::iterator part) {
    const auto next = behind(part);
    if (next == parts_.end() || next->second.state != BlockState::free) return;
    part->second.size += next->second.size;
    parts_.erase(next);
  }

  // Merged with free neighbours.
  void add_free(Address address, Bytes size, std::uint32_t group) {
    auto part = parts_.emplace(address, Part{size, 0, group, BlockState::free, false}).first;
    absorb_behind(part);
    const auto previous = before(part);
    if (previous != parts_.end() && previous->second.state == BlockState::free)
      absorb_behind(previous);
  }

  bool overlaps(Address address, Bytes size) {
    const auto next = parts_.lower_bound(address);
    return containing(address) != parts_.end() ||
           (next != parts_.end() && next->first < address + size);
  }

  static bool is_odd(const RecordedEvent& event) {
    return event.address == 0 || event.size == 0 || event.address % kMinBlockSize != 0 ||
           event.size % kMinBlockSize != 0;
  }

  // --- events ---

  void undo(const RecordedEvent& event) {
    if (!is_possible(event))
      return misfit("its address or size is out of range, expected those of a device");
    switch (event.action) {
      case RecordedAction::alloc: return undo_alloc(event);
      case RecordedAction::free_requested: return undo_free_requested(event);
      case RecordedAction::free_completed: return undo_free_completed(event);
      case RecordedAction::segment_alloc: return undo_segment_alloc(event);
      case RecordedAction::segment_free: return undo_segment_free(event);
      case RecordedAction::segment_map: return undo_map(event);
      case RecordedAction::segment_unmap: return undo_unmap(event);
      case RecordedAction::oom:
      case RecordedAction::other: break;
    }
  }

  // Free memory behind it can only be what was split off from it; in front of it there is none, as
  // a block is cut from the front of free memory.
  void undo_alloc(const RecordedEvent& event) {
    const auto part = parts_.find(event.address);
    if (part == parts_.end() || part->second.state != BlockState::allocated)
      return misfit("no allocated block is there afterwards, expected one");
    part->second.state = BlockState::free;
    part->second.requested = 0;
    part->second.carved = false;
    absorb_behind(part);
    const auto previous = before(part);
    if (previous != parts_.end() && previous->second.state == BlockState::free)
      misfit("the memory in front of it is free afterwards, expected a block");
  }

  void undo_free_requested(const RecordedEvent& event) {
    const auto part = parts_.find(event.address);
    if (part == parts_.end() || part->second.state != BlockState::waiting)
      return misfit("no block waits for its end there afterwards, expected one");
    part->second.state = BlockState::allocated;
  }

  // Cuts the block out of the free memory that it became part of.
  void undo_free_completed(const RecordedEvent& event) {
    const auto found = containing(event.address);
    if (found == parts_.end() || found->second.state != BlockState::free)
      return misfit("no free memory is there afterwards, expected some");
    const Group& group = groups_[found->second.group];
    const Address begin = found->first;
    const Address end = begin + found->second.size;
    const std::uint32_t row = found->second.group;
    Bytes size = block_size(event, group, end);
    if (event.size == 0 || event.address % kMinBlockSize != 0 || event.address + size > end)
      return misfit("the free memory there afterwards ends at {:#x}, expected room for it", end);

    const Bytes in_front = event.address - begin;
    if (in_front == 0) {
      parts_.erase(found);
    } else if (!group.expandable && group.kind == PoolKind::large && in_front < kLeastLarge) {
      const auto previous = before(found);
      if (previous == parts_.end())
        return misfit("{} free bytes lie before it at the start of a segment, expected none",
                      in_front);
      previous->second.size += in_front;
      parts_.erase(found);
    } else {
      found->second.size = in_front;
    }
    parts_.emplace(event.address, Part{size, event.size, row, BlockState::waiting, true});
    if (event.address + size < end)
      parts_.emplace(event.address + size,
                     Part{end - event.address - size, 0, row, BlockState::free, false});
  }

  // With what was not worth splitting off, as far as the end of the free memory tells.
  Bytes block_size(const RecordedEvent& event, const Group& group, Address end) const {
    const Bytes rounded = rounding_.block_size(std::max<Bytes>(event.size, 1));
    const Bytes rest = end - event.address - rounded;
    const bool splits_late = !group.expandable && group.kind == PoolKind::large;
    const auto& never_split = recording_.config.max_split_size;
    const bool keeps_rest = rest < kLeastLarge || (never_split && rounded >= *never_split);
    return splits_late && rest > 0 && keeps_rest ? rounded + rest : rounded;
  }

  void undo_segment_alloc(const RecordedEvent& event) {
    const auto part = parts_.find(event.address);
    if (part == parts_.end() || part->second.state != BlockState::free ||
        part->second.size != event.size || groups_[part->second.group].expandable)
      return misfit("no free segment of that size is there afterwards, expected one");
    parts_.erase(part);
  }

  void undo_segment_free(const RecordedEvent& event) {
    if (is_odd(event) || overlaps(event.address, event.size))
      return misfit("memory is there afterwards, expected none");
    const PoolKind kind = event.size == kSmallBuffer ? PoolKind::small : PoolKind::large;
    add_free(event.address, event.size,
             add_group({event.stream, kind, false, event.address, event.size}));
  }

  void undo_map(const RecordedEvent& event) {
    const auto part = containing(event.address);
    const Address end = event.address + event.size;
    if (part == parts_.end() || part->second.state != BlockState::free ||
        part->first + part->second.size < end || !groups_[part->second.group].expandable ||
        event.size == 0 || event.address % kMinBlockSize != 0 || event.size % kMinBlockSize != 0)
      return misfit("no free mapped memory is there afterwards, expected some");
    const Address part_end = part->first + part->second.size;
    const std::uint32_t group = part->second.group;
    part->second.size = event.address - part->first;
    if (part->second.size == 0) parts_.erase(part);
    if (end < part_end)
      parts_.emplace(end, Part{part_end - end, 0, group, BlockState::free, false});
  }

  // That of memory beside it, which no event can belie.
  std::uint32_t unmapped_group(const RecordedEvent& event) {
    const auto fits = [&](std::uint32_t row) {
      return groups_[row].expandable && groups_[row].stream == event.stream;
    };
    const auto after = parts_.find(event.address + event.size);
    if (after != parts_.end() && fits(after->second.group)) return after->second.group;
    const auto before = containing(event.address - 1);
    if (before != parts_.end() && fits(before->second.group)) return before->second.group;
    return arena_group(event.stream, arenas_.kind(at_));
  }

  void undo_unmap(const RecordedEvent& event) {
    if (is_odd(event) || overlaps(event.address, event.size))
      return misfit("mapped memory is there afterwards, expected none");
    add_free(event.address, event.size, unmapped_group(event));
  }

  // --- the result ---

  // Where events were left out, free blocks may be neighbours.
  void merge_free() {
    if (!contradiction_) return;
    for (auto part = parts_.begin(); part != parts_.end(); ++part)
      while (part->second.state == BlockState::free && behind(part) != parts_.end() &&
             behind(part)->second.state == BlockState::free)
        absorb_behind(part);
  }

  StartState start() {
    StartState out;
    out.contradiction = contradiction_;
    auto next_wait = recording_.streams.size();
    std::uint32_t last = 0;
    for (auto part = parts_.begin(); part != parts_.end(); ++part) {
      count_ambiguity(part, out);
      // Two ranges of a stream and pool with something else between them are two arenas.
      if (out.layout.empty() || part->second.group != last) add_segment(part->second.group, out);
      last = part->second.group;
      BlockLayout block{part->second.state,     part->first, part->second.size,
                        part->second.requested, {},          {}};
      if (block.state == BlockState::waiting) block.uses.push_back(StreamId(next_wait++));
      out.layout.back().blocks.push_back(std::move(block));
    }
    for (std::size_t i = 0; i < out.layout.size(); ++i)
      if (out.layout[i].expandable) find_base(out.layout, i);
    for (std::size_t i = 0; i < out.layout.size(); ++i)
      if (out.layout[i].expandable) fill_arena(out.layout, i);
    return out;
  }

  void add_segment(std::uint32_t row, StartState& out) const {
    const Group& group = groups_[row];
    SegmentLayout segment;
    segment.stream = group.stream;
    segment.kind = group.kind;
    segment.expandable = group.expandable;
    segment.address = group.address;
    segment.size = group.size;
    out.layout.push_back(std::move(segment));
  }

  void count_ambiguity(Parts::iterator part, StartState& out) {
    const Group& group = groups_[part->second.group];
    if (part->second.state == BlockState::free || !part->second.carved || group.expandable ||
        group.kind != PoolKind::large)
      return;
    const auto next = behind(part);
    if (next == parts_.end() || next->second.state != BlockState::free) return;
    out.ambiguous.push_back(
        {part->first, std::clamp<Bytes>(next->second.size - kLeastLarge, 0, kSmallSize)});
  }

  // The lowest address with memory, now or before all of the arena is given back.
  void find_base(Layout& layout, std::size_t row) const {
    SegmentLayout& arena = layout[row];
    const BlockLayout* const below = row == 0 ? nullptr : &layout[row - 1].blocks.back();
    const Address floor = below == nullptr ? 0 : below->address + below->size;
    arena.address = arena.blocks.front().address;
    Bytes mapped = 0;
    for (const BlockLayout& block : arena.blocks) mapped += block.size;
    for (std::size_t at = 0; at < recording_.events.size(); ++at) {
      const RecordedEvent& event = recording_.events[at];
      const bool maps = event.action == RecordedAction::segment_map;
      if (!maps && event.action != RecordedAction::segment_unmap) continue;
      if (!is_possible(event) || is_odd(event)) continue;
      if (event.stream != arena.stream || arenas_.kind(at) != arena.kind) continue;
      mapped += maps ? event.size : -event.size;
      if (mapped <= 0) break;
      if (maps && event.address >= floor) arena.address = std::min(arena.address, event.address);
    }
  }

  // Puts unmapped parts between the mapped ones and behind them, up to what comes next.
  void fill_arena(Layout& layout, std::size_t row) const {
    constexpr Bytes kReach = FreeIndex::kSizeLimit;
    SegmentLayout& arena = layout[row];
    const Bytes granule = rounding_.granule(arena.kind);
    Address limit = std::min(arena.address + kReach, FreeIndex::kAddressLimit);
    if (row + 1 < layout.size()) limit = std::min(limit, layout[row + 1].address);
    std::vector<BlockLayout> filled;
    Address next = arena.address;
    const auto leave_out = [&](Address to) {
      if (to > next) filled.push_back({BlockState::unmapped, next, to - next, 0, {}, {}});
    };
    for (BlockLayout& block : arena.blocks) {
      leave_out(block.address);
      next = block.address + block.size;
      filled.push_back(std::move(block));
    }
    const Address end = arena.address + round_down(limit - arena.address, granule);
    leave_out(end);
    arena.size = std::max(end, next) - arena.address;
    arena.blocks = std::move(filled);
  }

  const Recording& recording_;
  const RecordedArenas arenas_;
  const Rounding rounding_;
  Parts parts_;
  std::vector<Group> groups_;
  std::size_t at_ = 0;
  std::optional<Contradiction> contradiction_;
};

}  // namespace

Bytes StartState::upper_slack() const {
  Bytes sum = 0;
  for (const AmbiguousBlock& block : ambiguous) sum += block.upper_slack;
  return sum;
}

void StartState::give_slack(AmbiguousBlock& block, Bytes more) {
  for (SegmentLayout& segment : layout)
    for (std::size_t i = 0; i + 1 < segment.blocks.size(); ++i) {
      if (segment.blocks[i].address != block.address) continue;
      segment.blocks[i].size += more;
      segment.blocks[i + 1].address += more;
      segment.blocks[i + 1].size -= more;
    }
  block.upper_slack -= more;
}

Result<StartState> rewind(const Recording& recording) { return Rewinder(recording).run(); }

}  // namespace foregather::alloc
