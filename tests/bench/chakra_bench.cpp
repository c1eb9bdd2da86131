// Chakra traces: nodes per second that are decoded, beside unpacking and a plain copy of the same
// bytes; and a step of eight ranks. Needs the shared traces (FOREGATHER_DATA).
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tasks/simulate.h"
#include "tests/support/places.h"
#include "traces/chakra_graph.h"
#include "traces/read_all.h"

namespace {

using namespace foregather;

std::filesystem::path folder() {
  const char* const data = std::getenv("FOREGATHER_DATA");
  return std::filesystem::path(data != nullptr ? data : test::data_dir()) / "chakra/fsdp_8x20000";
}

std::string unpacked() {
  auto source = traces::open_text(folder() / "fsdp.0.et.gz");
  if (!source) return {};
  return traces::read_all(**source, "fsdp.0.et", GiB).value_or("");
}

void chakra_decode(benchmark::State& state) {
  const std::string bytes = unpacked();
  if (bytes.empty()) return state.SkipWithError("the shared Chakra traces are absent");
  std::size_t nodes = 0;
  for (auto _ : state) {
    const auto source = traces::text_of(bytes);
    const auto trace = traces::read_chakra(*source, "fsdp.0.et");
    nodes = trace->nodes.size();
    benchmark::DoNotOptimize(trace);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(nodes));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes.size()));
}
BENCHMARK(chakra_decode)->Unit(benchmark::kMillisecond);

void chakra_copy(benchmark::State& state) {
  const std::string bytes = unpacked();
  if (bytes.empty()) return state.SkipWithError("the shared Chakra traces are absent");
  for (auto _ : state) {
    const auto source = traces::text_of(bytes);
    benchmark::DoNotOptimize(traces::read_all(*source, "fsdp.0.et", GiB));
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes.size()));
}
BENCHMARK(chakra_copy)->Unit(benchmark::kMillisecond);

void chakra_unpack(benchmark::State& state) {
  if (unpacked().empty()) return state.SkipWithError("the shared Chakra traces are absent");
  for (auto _ : state) benchmark::DoNotOptimize(unpacked());
}
BENCHMARK(chakra_unpack)->Unit(benchmark::kMillisecond);

// Items are nodes of all ranks, as ASTRA-sim simulates them.
void chakra_simulate(benchmark::State& state) {
  tasks::SimulateRequest request;
  request.sources.paths = {folder() / "fsdp.0.et.gz"};
  request.record_memory = false;
  for (int rank = 1; rank < 8; ++rank)
    request.sources.paths.push_back(folder() / ("fsdp." + std::to_string(rank) + ".et.gz"));
  for (auto _ : state) {
    const auto outcome = tasks::simulate(request);
    if (!outcome) return state.SkipWithError(outcome.error().text().c_str());
  }
  state.SetItemsProcessed(state.iterations() * 160'000);
}
BENCHMARK(chakra_simulate)->Unit(benchmark::kMillisecond);

}  // namespace
