// The report for people: docs/validation.md.
#pragma once

#include <string>
#include <vector>

#include "tasks/validation/validate.h"

namespace foregather::tasks {

/// Markdown: the bars, a table per tier and group, the worst rows with what is behind them, pairs,
/// scaling, errors by mechanism, what was not predicted and why, collectives by size.
/// `folder` holds the pictures, relative to the report.
std::string report_markdown(const Validation& validation, const std::string& folder);

/// A picture that the report shows.
struct Picture {
  enum class About { steps, collectives };

  std::string file;     ///< its name in the folder
  std::string caption;  ///< what it shows, for readers that do not see it
  std::string svg;
  About about = About::steps;  ///< the part of the report that shows it
};
std::vector<Picture> pictures_of(const Validation& validation);

/// The same in short, for a terminal.
std::string report_text(const Validation& validation);

}  // namespace foregather::tasks
