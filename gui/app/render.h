// `foregather-gui --render`: a picture without a display.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "gui/views/picture.h"

namespace foregather::gui {

struct RenderRequest {
  std::vector<std::string> files;  ///< one or two runs, or one sweep
  std::string output;
  std::optional<TimeRange> range;  ///< of the axis, of a view that has one; else the compared step
  std::vector<std::uint32_t> ranks;  ///< empty: all
  QSizeF size{1600, 900};
  bool dark = false;
  /// Absent: of a sweep its plot, else the timeline.
  std::optional<PictureOf> picture;
  bool of_sweep = false;  ///< asked for
};

/// The arguments behind --render. Errors: an unknown option, a value that is none, files missing.
Result<RenderRequest> parse_render(const std::vector<std::string>& arguments);

/// "10ms..25.5ms": times with ns, us, µs, ms or s, from the begin of the step on. Errors: anything
/// else, an empty range.
Result<TimeRange> parse_range(const std::string& text);

/// Reads, paints and writes. Needs a QGuiApplication. Errors: those of reading and of writing, a
/// rank that is not there, what a sweep or the view has not.
Status render(const RenderRequest& request);

}  // namespace foregather::gui
