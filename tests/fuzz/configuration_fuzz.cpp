// Any bytes as what people write by hand: a workload, a module tree, a hardware file, DeepSpeed's
// and torchtitan's configurations, an allocator's. What is refused must be refused by a value.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/alloc/config.h"
#include "core/plan/foreign_config.h"
#include "core/plan/module_tree_toml.h"
#include "core/plan/workload_toml.h"
#include "sim/cost/hardware.h"

using namespace foregather;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)plan::parse_workload(text, "input", {});
  (void)plan::written_keys(text, "input");
  (void)plan::read_tree(text, "input");
  (void)plan::is_torchtitan_config(text);
  (void)plan::read_torchtitan_config(text, "input");
  (void)plan::is_deepspeed_config(text);
  (void)plan::read_deepspeed_config(text, "input");
  (void)sim::parse_hardware(text, "input");
  // Its text form says the same.
  if (const auto config = alloc::parse_alloc_conf(text))
    if (alloc::parse_alloc_conf(alloc::to_string(*config)) != *config) std::abort();
  return 0;
}
