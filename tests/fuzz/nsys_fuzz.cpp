// Any bytes as a SQLite export of Nsight Systems. What is refused must be refused by a value, in a
// time that the size bounds.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "core/compare/recorded_busy.h"
#include "traces/nsys.h"

using namespace foregather;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int file = ::memfd_create("export", MFD_CLOEXEC);
  if (file < 0 || ::write(file, data, size) != static_cast<ssize_t>(size)) std::abort();
  const auto trace = traces::read_nsys("/proc/self/fd/" + std::to_string(file));
  ::close(file);
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
