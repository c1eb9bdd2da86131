// The report for people: docs/validation.md.
#pragma once

#include <string>

#include "tasks/validation/validate.h"

namespace foregather::tasks {

/// Markdown: the bars, a table per tier and group, the worst rows with what is behind them, pairs,
/// scaling, errors by mechanism, what was not predicted and why, collectives by size.
std::string report_markdown(const Validation& validation);

/// The same in short, for a terminal.
std::string report_text(const Validation& validation);

}  // namespace foregather::tasks
