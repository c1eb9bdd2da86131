#include "traces/formats.h"

#include <array>
#include <string>

#include "traces/chrome.h"
#include "traces/csv.h"
#include "traces/memory_viz.h"
#include "traces/perfetto.h"

namespace foregather::traces {
namespace {

template <Status (*write)(run::RunView, const TextSink&)>
Status one(std::span<const PlacedRun> runs, const TextSink& sink) {
  return write(*runs.front().run, sink);
}

Status write_chrome(run::RunView run, const TextSink& sink) {
  return ChromeTrace(run).write({}, sink);
}

Status write_snapshot(std::span<const PlacedRun> runs, const TextSink& sink) {
  return write_memory_viz(*runs.front().run, runs.front().allocator_conf, sink);
}

constexpr std::array kFormats{
    Format{"chrome",
           "Chrome trace JSON, for ui.perfetto.dev, chrome://tracing and HolisticTraceAnalysis", 1,
           one<write_chrome>},
    Format{"perfetto", "tar archive of Chrome traces that Perfetto shows on one time axis", 2,
           write_perfetto},
    Format{"csv", "one op a row", 1, one<write_csv>},
    Format{"csv_memory", "one point of the memory curve a row", 1, one<write_csv_memory>},
    Format{"csv_allocations", "one allocation a row", 1, one<write_csv_allocations>},
    Format{"memory_viz", "PyTorch memory snapshot, for pytorch.org/memory_viz", 1, write_snapshot},
};

}  // namespace

std::span<const Format> formats() { return kFormats; }

Result<Format> find_format(std::string_view name) {
  std::string known;
  for (const Format& format : kFormats) {
    if (format.name == name) return format;
    known += known.empty() ? "" : ", ";
    known += format.name;
  }
  return fail("unknown format '{}', expected one of {}", name, known);
}

}  // namespace foregather::traces
