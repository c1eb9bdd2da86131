#include "tasks/holders.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

namespace foregather::tasks {
namespace {

using traces::Snapshot;

// 0: the user's Python, 1: other Python, 2: an autograd node, 3: native code with a known place,
// 4: nothing known, 5: what took the stack.
int strangeness(std::string_view name, std::string_view file) {
  if (file.ends_with(".py")) {
    for (const std::string_view installed : {"site-packages", "dist-packages", "torch/", "torch\\"})
      if (file.find(installed) != std::string_view::npos) return 1;
    return 0;
  }
  if (file.ends_with("memory_snapshot.cpp")) return 5;
  // Threads of the backward have no Python.
  const bool is_node = name.find("torch::autograd::") != std::string_view::npos ||
                       name.find("Backward") != std::string_view::npos;
  if (is_node && name.find("::apply(") != std::string_view::npos) return 2;
  return file.empty() || file == "??" ? 4 : 3;
}

bool is_live_at_peak(const alloc::BlockLife& life, const alloc::Replay& replay) {
  if (life.is_waiting) return false;
  if (!replay.peak_event) return !life.born;
  return (!life.born || *life.born <= *replay.peak_event) &&
         (!life.freed || *life.freed > *replay.peak_event);
}

void sort_holders(std::vector<Holder>& holders) {
  std::sort(holders.begin(), holders.end(), [](const Holder& a, const Holder& b) {
    if (a.bytes != b.bytes) return a.bytes > b.bytes;
    return a.frame != b.frame ? a.frame < b.frame : a.block_bytes > b.block_bytes;
  });
}

}  // namespace

std::string shown_frame(const Snapshot& snapshot, traces::FrameId id) {
  const traces::Frame& frame = snapshot.stacks.frame(id);
  return fmt::format("{} ({}:{})", snapshot.strings.text(frame.name),
                     snapshot.strings.text(frame.file), frame.line);
}

traces::StackId stack_of(const Snapshot& snapshot, std::size_t device,
                         const alloc::BlockLife& life) {
  if (life.born) return snapshot.traces[device][*life.born].stack;
  if (life.freed) return {};
  const auto after = std::upper_bound(
      snapshot.segments.begin(), snapshot.segments.end(), life.address,
      [](std::int64_t address, const auto& segment) { return address < segment.address; });
  for (auto segment = after; segment != snapshot.segments.begin();) {
    --segment;
    if (segment->device != static_cast<std::int64_t>(device)) continue;
    for (const traces::SnapshotBlock& block : segment->blocks)
      if (block.address == life.address) return block.stack;
    break;
  }
  return {};
}

std::string responsible_frame(const Snapshot& snapshot, traces::StackId stack) {
  const auto frames = snapshot.stacks.frames(stack);
  if (frames.empty()) return "(no stack recorded)";
  const auto best = std::min_element(frames.begin(), frames.end(), [&](auto a, auto b) {
    const auto strange = [&](traces::FrameId id) {
      const traces::Frame& frame = snapshot.stacks.frame(id);
      return strangeness(snapshot.strings.text(frame.name), snapshot.strings.text(frame.file));
    };
    return strange(a) < strange(b);
  });
  return shown_frame(snapshot, *best);
}

std::string holder_name(const Snapshot& snapshot, traces::StackId stack,
                        const alloc::BlockLife& life) {
  const bool is_known = stack && !snapshot.stacks.frames(stack).empty();
  return is_known || life.born ? responsible_frame(snapshot, stack)
                               : "(allocated before the window)";
}

Holders holders_at_peak(const Snapshot& snapshot, std::size_t device, const alloc::Replay& replay) {
  // By stack, and whether it was allocated in the window.
  std::map<std::pair<traces::StackId, bool>, std::string> frames;
  const auto frame_of = [&](const alloc::BlockLife& life) -> const std::string& {
    const traces::StackId stack = stack_of(snapshot, device, life);
    auto [entry, is_new] = frames.try_emplace({stack, life.born.has_value()});
    if (is_new) entry->second = holder_name(snapshot, stack, life);
    return entry->second;
  };
  std::map<std::string, Holder> by_frame;
  std::map<Bytes, Holder> by_size;
  for (const alloc::BlockLife& life : replay.lives) {
    if (!is_live_at_peak(life, replay)) continue;
    for (Holder* holder : {&by_frame[frame_of(life)], &by_size[life.size]}) {
      ++holder->blocks;
      holder->bytes += life.size;
    }
  }
  Holders out;
  for (auto& [frame, holder] : by_frame) {
    holder.frame = frame;
    out.by_frame.push_back(std::move(holder));
  }
  for (auto& [size, holder] : by_size) {
    holder.block_bytes = size;
    out.by_size.push_back(std::move(holder));
  }
  sort_holders(out.by_frame);
  sort_holders(out.by_size);
  return out;
}

}  // namespace foregather::tasks
