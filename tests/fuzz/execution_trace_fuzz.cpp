// Any bytes as a PyTorch execution trace: read, or refused by a value.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "traces/execution_trace.h"

using namespace foregather;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)traces::is_execution_trace(text);
  const auto source = traces::text_of(text);
  const auto trace = traces::read_execution_trace(*source, "input");
  if (!trace) return 0;
  const traces::ExecutionNodes& nodes = trace->nodes;
  if (static_cast<std::int64_t>(nodes.size()) > trace->elements) std::abort();
  for (const StringId name : nodes.name)
    if (!name) std::abort();
  return 0;
}
