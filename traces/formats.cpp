#include "traces/formats.h"

#include <array>
#include <string>

#include "traces/chrome.h"
#include "traces/csv.h"
#include "traces/memory_viz.h"

namespace foregather::traces {
namespace {

constexpr std::array kFormats{
    Format{"chrome", "Chrome trace JSON, for ui.perfetto.dev and chrome://tracing", write_chrome},
    Format{"csv", "one op a row", write_csv},
    Format{"memory_viz", "PyTorch memory snapshot, for pytorch.org/memory_viz", write_memory_viz},
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
