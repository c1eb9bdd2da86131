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
/// whatever became of the file; what else it was predicted from; of a recording the step that is
/// compared. Errors: a memory snapshot; the timeline of a pipeline, which is another run than its
/// prediction; a prediction whose source is gone.
Result<WhatIf> what_if_of(const OpenRun& open);

struct Resimulated {
  OpenRun run;
  std::shared_ptr<const Document> document;
};

/// Lays a run over `below`. Errors: those of Document::open().
Result<Resimulated> laid_over(OpenRun run, std::optional<OpenRun> below);

/// Simulates the source as it is turned, as `foregather simulate` does, and lays it over `below`.
/// Errors: those of `foregather simulate`; a source that predicts something else than the run that
/// is turned.
Result<Resimulated> resimulate(const WhatIf& what_if, std::optional<OpenRun> below);

}  // namespace foregather::gui
