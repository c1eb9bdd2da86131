// Any bytes as a SQLite export of Nsight Systems. What is refused must be refused by a value, in a
// time that the size bounds.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "core/compare/recorded_busy.h"
#include "tests/fuzz/scratch_file.h"
#include "traces/nsys.h"

using namespace foregather;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  [[maybe_unused]] static const bool opens = (must_open_files(traces::read_nsys), true);
  const ScratchFile file(data, size);
  const auto trace = traces::read_nsys(file.path());
  if (!trace) return 0;
  const run::Recording& recording = trace->recording;
  std::int64_t read = recording.rows.kept;
  for (const auto* counts : {&recording.rows.unused, &recording.dropped})
    for (const auto& [word, n] : *counts) read += n;
  if (read != recording.rows.read) std::abort();
  const compare::RecordedBusy busy = compare::recorded_figures(recording).all;
  if (busy.overlap > busy.comm || busy.comm > busy.busy) std::abort();
  return 0;
}
