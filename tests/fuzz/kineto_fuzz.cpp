// Any bytes as a trace of torch.profiler and as a pipeline timeline: read, and every event
// accounted for. What is refused must be refused by a value.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/compare/recorded_busy.h"
#include "core/compare/recorded_timeline.h"
#include "traces/kineto.h"
#include "traces/timeline.h"

using namespace foregather;

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

void check_accounts(const run::Recording& recording) {
  std::int64_t read = recording.rows.kept;
  for (const auto* counts : {&recording.rows.unused, &recording.dropped})
    for (const auto& [word, n] : *counts) read += n;
  check(read == recording.rows.read);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)traces::is_timeline(text);
  if (const auto trace = traces::read_kineto(*traces::text_of(text), "input")) {
    check_accounts(trace->recording);
    check(trace->facts.text_bytes <= static_cast<Bytes>(size));
    const compare::RecordedBusy busy = compare::recorded_figures(trace->recording).all;
    check(busy.overlap >= 0 && busy.overlap <= busy.comm && busy.overlap <= busy.compute);
    check(busy.comm <= busy.comm_time && busy.comm <= busy.busy && busy.compute <= busy.busy);
  }
  if (const auto trace = traces::read_timeline(*traces::text_of(text), "input")) {
    check_accounts(trace->recording);
    const compare::TimelineFigures figures = compare::timeline_figures(trace->recording);
    check(figures.lanes <= static_cast<std::int64_t>(trace->recording.lanes.size()));
  }
  return 0;
}
