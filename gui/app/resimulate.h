// A turned knob becomes a document.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "gui/views/ruler_painter.h"
#include "gui/views/what_if_panel.h"

namespace foregather::gui {

/// What this program knows by name.
KnobNames knob_names();

/// What can be turned of an open run: the workload that it was predicted from, as the run has it
/// whatever became of the file, or the file itself. Errors: a memory snapshot.
Result<WhatIf> what_if_of(const OpenRun& open);

struct Resimulated {
  OpenRun run;
  std::shared_ptr<const Document> document;
};

/// Simulates the source as it is turned, as `foregather simulate` does, and lays it over `below`.
/// Errors: those of `foregather simulate`.
Result<Resimulated> resimulate(const WhatIf& what_if, std::optional<OpenRun> below);

}  // namespace foregather::gui
