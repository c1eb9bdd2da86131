// Any bytes as a printed Thunder trace: read, counted, and turned into a schedule, which must be
// one that could run. What is refused must be refused by a value.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/validate.h"
#include "sim/memory/live.h"
#include "traces/thunder_facts.h"
#include "traces/thunder_graph.h"

using namespace foregather;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)traces::is_thunder_trace(text);
  const auto file = traces::read_thunder(text, "input");
  if (!file) return 0;
  const traces::ThunderFacts facts = traces::thunder_facts(*file);
  if (facts.peak_bytes < facts.end_bytes || facts.peak_bytes < facts.argument_bytes) std::abort();
  std::vector<std::string> warnings;
  const auto parts = traces::thunder_parts(*file, "input", warnings);
  // Large worlds only cost time.
  traces::ThunderGraphOptions options;
  options.world_size = 4;
  const auto graph = traces::thunder_graph(parts, options);
  if (!graph) return 0;
  if (const auto bad = validate(graph->graph, 1); !bad.empty()) {
    std::fprintf(stderr, "%s\n", bad.front().message.c_str());
    std::abort();
  }
  if (sim::live_memory(graph->graph).front().steady.bytes < 0) std::abort();
  return 0;
}
