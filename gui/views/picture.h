// A whole picture: what `render` writes.
#pragma once

#include <QPainter>
#include <functional>
#include <optional>
#include <string_view>

#include "gui/models/sweep_plot.h"
#include "gui/views/ruler_painter.h"

namespace foregather::gui {

enum class PictureOf : std::uint8_t { timeline, memory, segments, residuals, summary };
std::optional<PictureOf> picture_of(std::string_view word);

/// Paints a view with its title, ruler, legend and, in the corner, which runs it is of. Lanes or
/// ranks that do not fit are counted in words.
void paint_picture(QPainter& painter, const QSizeF& size, const Scene& scene, PictureOf what);

/// The view of residuals, in the order and with the filter of these, which are of the scene's
/// document.
void paint_picture(QPainter& painter, const QSizeF& size, const Scene& scene,
                   const Residuals& residuals);

/// A sweep, and beside it what is known of it.
void paint_picture(QPainter& painter, const QSizeF& size, const SweepPlot& plot,
                   const Theme& theme);

/// Into a file: PNG, or SVG where the name ends so. Errors: another ending; a file that cannot be
/// written. `scale` is pixels a unit of `size` in a PNG.
Status save_picture(const std::string& path, const QSizeF& size, double scale,
                    const std::function<void(QPainter&)>& paint);

}  // namespace foregather::gui
