// Any bytes as a Chakra trace in either form: read, its dependencies resolved, and turned into a
// schedule, which must be one that could run. What is refused must be refused by a value.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "core/ir/validate.h"
#include "traces/chakra_graph.h"
#include "traces/text_source.h"

using namespace foregather;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  (void)traces::is_chakra_et(bytes);
  const auto source = traces::text_of(bytes);
  const auto trace = traces::read_chakra(*source, "input");
  if (!trace) return 0;
  const traces::ChakraDeps deps = traces::resolve_deps(trace->nodes);
  const traces::ChakraOrder order = traces::topological_order(deps);
  if ((order.rows.size() == trace->nodes.size()) != order.circle.empty()) std::abort();
  // Large worlds only cost time.
  for (const traces::ChakraGroup& group : trace->groups) {
    if (group.size > 64) return 0;
    for (const std::uint32_t rank : group.ranks)
      if (rank >= 64) return 0;
  }
  for (const traces::ChakraComm& comm : trace->nodes.comms)
    if (comm.source.value_or(0) >= 64 || comm.destination.value_or(0) >= 64) return 0;
  const traces::ChakraClass classes[] = {{&*trace, {0}}, {&*trace, {1}}};
  const auto graph = traces::chakra_graph(classes, {});
  if (!graph) return 0;
  // Whether ranks agree on their collectives is up to the traces.
  const auto bad = validate(graph->graph, 1);
  if (!bad.empty() && bad.front().kind != ProblemKind::collective_mismatch) {
    std::fprintf(stderr, "%s\n", bad.front().message.c_str());
    std::abort();
  }
  return 0;
}
