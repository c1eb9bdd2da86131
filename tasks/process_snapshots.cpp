#include "tasks/process_snapshots.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "core/alloc/replay.h"
#include "tasks/recordings.h"
#include "traces/snapshot.h"

namespace foregather::tasks {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".memory.pickle";

using Blocks = std::set<std::pair<alloc::Address, Bytes>>;

/// What one snapshot says of one GPU.
struct History {
  std::vector<Ns> times;  // of its events, on the recording's clock
  alloc::Replay replay;
  Ns begin() const { return times.front(); }
  Ns end() const { return times.back(); }
};

Blocks held(const History& history, std::optional<std::size_t> alloc::BlockLife::*open) {
  Blocks blocks;
  for (const alloc::BlockLife& life : history.replay.lives)
    if (!(life.*open) && !life.is_waiting) blocks.emplace(life.address, life.size);
  return blocks;
}

/// Writes the histories of one GPU, the earliest first.
class DeviceRows {
 public:
  DeviceRows(std::size_t device, run::Recording& recording)
      : device_(recording.strings.intern(fmt::format("1:{}", device))), rows_(recording.memory) {}

  void add(const History& history) {
    if (before_ != nullptr) bridge(*before_, history);
    before_ = &history;
    std::vector<std::pair<std::size_t, const alloc::BlockLife*>> born, freed;
    for (const alloc::BlockLife& life : history.replay.lives) {
      if (life.born) born.emplace_back(*life.born, &life);
      if (life.freed) freed.emplace_back(*life.freed, &life);
    }
    std::sort(born.begin(), born.end());
    std::sort(freed.begin(), freed.end());
    auto next_free = freed.begin();
    const auto free_until = [&](std::size_t event) {
      for (; next_free != freed.end() && next_free->first < event; ++next_free)
        add(history, next_free->first, *next_free->second, -next_free->second->size);
    };
    for (const auto& [event, life] : born) {
      free_until(event);
      add(history, event, *life, life->size);
    }
    free_until(history.times.size());
  }
  /// Events that have a row.
  std::int64_t events() const { return events_; }

 private:
  void add(Ns time, alloc::Address address, Bytes bytes, Bytes allocated, Bytes reserved) {
    rows_.lane.emplace_back();
    rows_.device.push_back(device_);
    rows_.time.push_back(time);
    rows_.address.push_back(static_cast<std::uint64_t>(address));
    rows_.bytes.push_back(bytes);
    rows_.total_allocated.push_back(allocated);
    rows_.total_reserved.push_back(reserved);
  }

  void add(const History& history, std::size_t event, const alloc::BlockLife& life, Bytes bytes) {
    ++events_;
    const auto& curve = history.replay.curve;
    const auto after = std::lower_bound(
        curve.begin(), curve.end(), event,
        [](const alloc::CurvePoint& point, std::size_t at) { return point.event < at; });
    const alloc::Usage& usage = after == curve.end() ? history.replay.at_end : after->usage;
    add(history.times[event], life.address, bytes, usage.allocated, usage.reserved);
  }

  void bridge(const History& from, const History& to) {
    const Ns time = from.end() + (to.begin() - from.end()) / 2;
    const Blocks old = held(from, &alloc::BlockLife::freed),
                 now = held(to, &alloc::BlockLife::born);
    Bytes allocated = from.replay.at_end.allocated;
    for (const auto& [address, size] : old)
      if (!now.contains({address, size}))
        add(time, address, -size, allocated -= size, to.replay.at_start.reserved);
    for (const auto& [address, size] : now)
      if (!old.contains({address, size}))
        add(time, address, size, allocated += size, to.replay.at_start.reserved);
  }

  StringId device_;
  run::MemoryColumns& rows_;
  const History* before_ = nullptr;
  std::int64_t events_ = 0;
};

void read(const std::string& path, run::Recording& recording,
          std::map<std::size_t, std::vector<History>>& histories) {
  std::vector<std::string> warnings;
  const auto snapshot = traces::read_snapshot(path);
  if (!snapshot) return recording.warnings.push_back(snapshot.error().text());
  if (!snapshot->has_times)
    return recording.warnings.push_back(path + ": its events have no times: it is left out");
  const alloc::AllocConfig config = recorded_config(*snapshot, warnings);
  for (const DeviceRecording& device : recordings(*snapshot, config, warnings)) {
    if (device.recording.events.empty()) continue;
    auto replay = alloc::replay(device.recording, true);
    if (!replay) {
      warnings.push_back(
          fmt::format("device {}: {}: it is left out", device.device, replay.error().message));
      continue;
    }
    if (replay->first_divergence)
      warnings.push_back(fmt::format(
          "device {}: sizes and totals are of a replay, which differs "
          "from event {} on: {}",
          device.device, replay->first_divergence->event, replay->first_divergence->reason));
    History history{{}, std::move(*replay)};
    for (const traces::SnapshotEvent& event : snapshot->traces[device.device])
      history.times.push_back(event.time_us * kMicrosecond - recording.base);
    histories[device.device].push_back(std::move(history));
  }
  for (const std::string& warning : warnings)
    recording.warnings.push_back(fmt::format("{}: {}", path, warning));
}

std::vector<std::string> files_of(const fs::path& folder, std::string_view begin,
                                  std::string_view end) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const bool is_unfinished = name.starts_with('.');
    if (!is_unfinished && name.starts_with(begin) && name.ends_with(end))
      paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

std::vector<std::string> snapshots_beside(const std::string& raw_recording) {
  const fs::path raw = raw_recording;
  return files_of(raw.has_parent_path() ? raw.parent_path() : ".", raw.stem().string() + ".",
                  kEnding);
}

std::vector<std::string> snapshots_alone(const std::string& folder) {
  std::vector<std::string> alone = files_of(folder, "", kEnding);
  for (const std::string& raw : files_of(folder, "", ".sqlite"))
    for (const std::string& path : snapshots_beside(raw)) std::erase(alone, path);
  return alone;
}

void add_snapshots(const std::vector<std::string>& paths, run::Recording& recording) {
  std::map<std::size_t, std::vector<History>> histories;  // by GPU
  for (const std::string& path : paths) read(path, recording, histories);
  for (auto& [device, parts] : histories) {
    std::sort(parts.begin(), parts.end(),
              [](const History& a, const History& b) { return a.begin() < b.begin(); });
    DeviceRows rows(device, recording);
    std::int64_t events = 0;
    for (const History& history : parts) {
      rows.add(history);
      events += static_cast<std::int64_t>(history.times.size());
    }
    recording.rows.read += events;
    recording.rows.kept += rows.events();
    run::count(recording.rows.unused, "segments and completed frees", events - rows.events());
  }
}

}  // namespace foregather::tasks
