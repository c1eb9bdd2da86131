// Any bytes as a memory snapshot: read, rewound, replayed and replayed under another configuration.
// What is refused must be refused by a value; what is accepted must keep the allocator's rules.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "core/alloc/replay.h"
#include "core/alloc/what_if.h"
#include "tasks/recordings.h"
#include "traces/snapshot.h"
#include "traces/snapshot_facts.h"

using namespace foregather;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto snapshot = traces::read_snapshot(traces::ByteStream::of(bytes), "input");
  if (!snapshot) return 0;
  (void)traces::snapshot_facts(*snapshot);
  std::vector<std::string> warnings;
  const alloc::AllocConfig config = tasks::recorded_config(*snapshot, warnings);
  for (const auto& device : tasks::recordings(*snapshot, config, warnings)) {
    const auto replay = alloc::replay(device.recording, true);
    if (!replay) continue;
    if (replay->exact() != (replay->blocks_different == 0 && !replay->first_divergence))
      std::abort();
    for (const char* conf : {"", "expandable_segments:True", "max_split_size_mb:21"})
      for (const auto start : {alloc::WhatIfStart::recorded, alloc::WhatIfStart::cold}) {
        const alloc::WhatIf question{alloc::parse_alloc_conf(conf).value(), start, 2 * GiB};
        (void)alloc::what_if(device.recording, *replay, question);
      }
  }
  return 0;
}
