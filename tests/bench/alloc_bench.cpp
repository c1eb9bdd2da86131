// What a malloc or a free costs in the steady pattern of training; items are calls.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "core/alloc/caching_allocator.h"
#include "core/alloc/simulated_memory.h"
#include "tests/bench/plain_best_fit.h"

namespace {

using namespace foregather;
using namespace foregather::alloc;

/// Malloc (bytes > 0) into a slot, or free (bytes 0) of it.
struct Call {
  Bytes bytes;
  std::uint32_t slot;
  std::uint32_t stream;
};

/// Calls of a step, in order. Every slot is free at its end.
class Step {
 public:
  std::uint32_t malloc(Bytes bytes, std::uint32_t stream = 0) {
    std::uint32_t slot = slots_;
    if (spare_.empty()) {
      ++slots_;
    } else {
      slot = spare_.back();
      spare_.pop_back();
    }
    calls_.push_back({bytes, slot, stream});
    return slot;
  }
  void free(std::uint32_t slot) {
    calls_.push_back({0, slot, 0});
    spare_.push_back(slot);
  }
  void temporary(Bytes bytes) { free(malloc(bytes)); }

  const std::vector<Call>& calls() const { return calls_; }
  std::uint32_t slots() const { return slots_; }

 private:
  std::vector<Call> calls_;
  std::vector<std::uint32_t> spare_;
  std::uint32_t slots_ = 0;
};

/// A sharded transformer: each layer gathers its parameters on stream 1, keeps activations from
/// forward to backward and uses temporaries. With 32 layers about 16,000 calls and 400 live blocks;
/// `variants` sequence lengths follow each other as micro-batches of one step.
Step transformer(int layers, int variants) {
  Step step;
  for (int variant = 0; variant < variants; ++variant) {
    const Bytes tokens = 2048 + 96 * variant;
    const Bytes hidden = tokens * 4096 * 2;
    const Bytes inner = tokens * 11008 * 2;
    std::vector<std::vector<std::uint32_t>> kept;
    const auto compute = [&](int temporaries) {
      for (int i = 0; i < temporaries; ++i) {
        const std::uint32_t small = step.malloc(512 + 4096 * (i % 7));
        const std::uint32_t large = step.malloc(hidden + inner * (i % 3));
        step.temporary(tokens * 4);
        step.free(large);
        step.temporary(i % 2 == 0 ? hidden : inner);
        step.free(small);
      }
    };
    for (int layer = 0; layer < layers; ++layer) {
      const std::uint32_t unsharded = step.malloc(202 * MiB, 1);
      std::vector<std::uint32_t>& activations = kept.emplace_back();
      for (int i = 0; i < 4; ++i) activations.push_back(step.malloc(hidden));
      for (int i = 0; i < 3; ++i) activations.push_back(step.malloc(inner));
      for (int i = 0; i < 5; ++i) activations.push_back(step.malloc(tokens * 4 * (i + 1)));
      compute(28);
      step.free(unsharded);
    }
    for (int layer = layers; layer-- > 0;) {
      const std::uint32_t unsharded = step.malloc(202 * MiB, 1);
      const std::uint32_t gradient = step.malloc(202 * MiB);
      compute(32);
      for (const std::uint32_t slot : kept.back()) {
        step.temporary(hidden);
        step.free(slot);
      }
      kept.pop_back();
      const std::uint32_t reduced = step.malloc(26 * MiB, 2);
      step.free(gradient);
      step.free(unsharded);
      step.free(reduced);
    }
  }
  return step;
}

void run(CachingAllocator& allocator, const Step& step, std::vector<BlockId>& blocks) {
  for (const Call& call : step.calls()) {
    if (call.bytes > 0) {
      blocks[call.slot] = allocator.malloc(call.bytes, StreamId(call.stream)).block;
    } else {
      allocator.free(blocks[call.slot]);
    }
  }
}

void training_step(benchmark::State& state, const char* conf, int variants) {
  SimulatedMemory memory(SimulatedMemory::kUnlimited);
  InstantClock clock;
  CachingAllocator allocator(parse_alloc_conf(conf).value(), memory, clock);
  const Step step = transformer(32, variants);
  std::vector<BlockId> blocks(step.slots());
  for (int warm = 0; warm < 3; ++warm) run(allocator, step, blocks);
  for (auto _ : state) run(allocator, step, blocks);
  const auto calls = static_cast<double>(step.calls().size());
  state.counters["calls"] = calls;
  state.counters["ns_per_call"] = benchmark::Counter(
      calls * 1e-9, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK_CAPTURE(training_step, plain, "", 1)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(training_step, three_shapes, "", 3)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(training_step, expandable, "expandable_segments:True", 1)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(training_step, max_split, "max_split_size_mb:256", 1)
    ->Unit(benchmark::kMicrosecond);

void training_step_plain_std_set(benchmark::State& state) {
  bench::PlainBestFit allocator;
  const Step step = transformer(32, 1);
  std::vector<Address> blocks(step.slots());
  for (auto _ : state)
    for (const Call& call : step.calls()) {
      if (call.bytes > 0)
        blocks[call.slot] = allocator.malloc(call.bytes);
      else
        allocator.free(blocks[call.slot]);
    }
  state.counters["ns_per_call"] = benchmark::Counter(
      static_cast<double>(step.calls().size()) * 1e-9,
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(training_step_plain_std_set)->Unit(benchmark::kMicrosecond);

// Random sizes and a free index of many blocks: what one call costs there.
void fragmented(benchmark::State& state) {
  SimulatedMemory memory(SimulatedMemory::kUnlimited);
  InstantClock clock;
  CachingAllocator allocator(AllocConfig{}, memory, clock);
  std::vector<BlockId> blocks(2 * static_cast<std::size_t>(state.range(0)));
  std::uint64_t random = 1;
  const auto next = [&] {
    return (random = random * 6364136223846793005U + 1442695040888963407U) >> 33;
  };
  const auto bytes = [&] { return static_cast<Bytes>(512 + next() % 65536); };
  for (BlockId& block : blocks) block = allocator.malloc(bytes(), StreamId(0)).block;
  for (std::size_t i = 0; i < blocks.size(); i += 2) allocator.free(blocks[i]);
  for (auto _ : state) {
    const std::size_t slot = 1 + 2 * (next() % (blocks.size() / 2));
    allocator.free(blocks[slot]);
    blocks[slot] = allocator.malloc(bytes(), StreamId(0)).block;
  }
}
BENCHMARK(fragmented)->Arg(300)->Arg(3000)->Arg(100000);

void copy_of_state(benchmark::State& state) {
  SimulatedMemory memory(SimulatedMemory::kUnlimited);
  InstantClock clock;
  CachingAllocator allocator(AllocConfig{}, memory, clock);
  const Step step = transformer(32, 1);
  std::vector<BlockId> blocks(step.slots());
  run(allocator, step, blocks);
  for (auto _ : state) {
    CachingAllocator copy(allocator, memory, clock);
    benchmark::DoNotOptimize(copy.usage());
  }
}
BENCHMARK(copy_of_state)->Unit(benchmark::kMicrosecond);

}  // namespace
