// Files become a document.
#pragma once

#include <string>

#include "core/base/result.h"
#include "gui/views/ruler_painter.h"

namespace foregather::gui {

/// One run of whatever `compare` takes as a side: RUN.db, RUN.db:NAME, a recording, a snapshot, any
/// SOURCE of simulate.
Result<OpenRun> load_run(const std::string& location);

}  // namespace foregather::gui
