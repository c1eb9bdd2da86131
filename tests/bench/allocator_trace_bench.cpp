// AllocatorTrace: allocs and frees per second on recorded traces, beside the plainest best fit.
// Items are calls. Needs the shared snapshots (FOREGATHER_DATA); says so where they are absent.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/alloc/caching_allocator.h"
#include "core/alloc/rewind.h"
#include "core/alloc/simulated_memory.h"
#include "tasks/recordings.h"
#include "tests/bench/plain_best_fit.h"
#include "tests/support/places.h"
#include "traces/snapshot.h"

namespace {

using namespace foregather;
using namespace foregather::alloc;

/// Malloc (bytes > 0) into a slot, or free (bytes 0) of it.
struct TracedCall {
  Bytes bytes;
  std::uint32_t slot;
  std::uint32_t stream;
};

/// The calls of a recorded window: what lived before it is allocated first, what lives at its end
/// is freed last.
struct Trace {
  std::vector<TracedCall> calls;
  std::uint32_t slots = 0;
  std::size_t events = 0;
};

class TraceMaker {
 public:
  Trace make(const Recording& recording, const StartState& start) {
    for (const SegmentLayout& segment : start.layout)
      for (const BlockLayout& block : segment.blocks)
        if (block.state == BlockState::allocated)
          malloc(block.address, block.requested, segment.stream);
    for (const RecordedEvent& event : recording.events) {
      if (event.action == RecordedAction::alloc) malloc(event.address, event.size, event.stream);
      if (event.action == RecordedAction::free_requested) free(event.address);
    }
    const std::map<Address, std::uint32_t> left(live_.begin(), live_.end());
    for (const auto& [address, slot] : left) free(address);
    trace_.events = recording.events.size();
    return std::move(trace_);
  }

 private:
  void malloc(Address address, Bytes bytes, StreamId stream) {
    std::uint32_t slot = trace_.slots;
    if (spare_.empty()) {
      ++trace_.slots;
    } else {
      slot = spare_.back();
      spare_.pop_back();
    }
    live_[address] = slot;
    trace_.calls.push_back({bytes, slot, stream.row()});
  }
  void free(Address address) {
    const auto found = live_.find(address);
    trace_.calls.push_back({0, found->second, 0});
    spare_.push_back(found->second);
    live_.erase(found);
  }

  Trace trace_;
  std::unordered_map<Address, std::uint32_t> live_;
  std::vector<std::uint32_t> spare_;
};

void finish(benchmark::State& state, const Trace& trace) {
  const auto calls = static_cast<std::int64_t>(trace.calls.size());
  state.SetItemsProcessed(state.iterations() * calls);
  state.counters["events"] = static_cast<double>(trace.events);
  state.counters["calls"] = static_cast<double>(calls);
}

void replica(benchmark::State& state, const Trace& trace, const std::string& conf) {
  SimulatedMemory memory(SimulatedMemory::kUnlimited);
  InstantClock clock;
  CachingAllocator allocator(parse_alloc_conf(conf).value(), memory, clock);
  std::vector<BlockId> blocks(trace.slots);
  for (auto _ : state)
    for (const TracedCall& call : trace.calls) {
      if (call.bytes > 0)
        blocks[call.slot] = allocator.malloc(call.bytes, StreamId(call.stream)).block;
      else
        allocator.free(blocks[call.slot]);
    }
  benchmark::DoNotOptimize(allocator.usage());
  finish(state, trace);
}

void plain(benchmark::State& state, const Trace& trace) {
  bench::PlainBestFit allocator;
  std::vector<Address> blocks(trace.slots);
  for (auto _ : state)
    for (const TracedCall& call : trace.calls) {
      if (call.bytes > 0)
        blocks[call.slot] = allocator.malloc(call.bytes);
      else
        allocator.free(blocks[call.slot]);
    }
  benchmark::DoNotOptimize(blocks.data());
  finish(state, trace);
}

void add(const std::filesystem::path& path) {
  const auto snapshot = traces::read_snapshot(path.string());
  if (!snapshot) return;
  std::vector<std::string> warnings;
  for (const auto& device : tasks::recordings(*snapshot, AllocConfig{}, warnings)) {
    const auto start = rewind(device.recording);
    if (!start) continue;
    const Trace trace = TraceMaker().make(device.recording, *start);
    const std::string name = path.parent_path().filename().string() + "/" + path.stem().string();
    using benchmark::RegisterBenchmark;
    RegisterBenchmark(("AllocatorTrace/" + name).c_str(),
                      [trace](benchmark::State& state) { replica(state, trace, ""); });
    RegisterBenchmark(
        ("AllocatorTrace/expandable/" + name).c_str(),
        [trace](benchmark::State& state) { replica(state, trace, "expandable_segments:True"); });
    RegisterBenchmark(("AllocatorTrace/plain_std_set/" + name).c_str(),
                      [trace](benchmark::State& state) { plain(state, trace); });
  }
}

void absent(benchmark::State& state) {
  state.SkipWithError("FOREGATHER_DATA has no memsnap/: no recorded trace to replay");
}

const bool registered = [] {
  const char* const chosen = std::getenv("FOREGATHER_DATA");
  const std::filesystem::path folder =
      std::filesystem::path(chosen != nullptr ? chosen : test::data_dir()) / "memsnap";
  std::error_code error;
  std::set<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, error))
    if (entry.path().extension() == ".pickle") paths.insert(entry.path());
  for (const auto& path : paths) add(path);
  if (paths.empty()) benchmark::RegisterBenchmark("AllocatorTrace", absent);
  return true;
}();

}  // namespace
