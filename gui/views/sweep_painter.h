// The picture of a sweep.
#pragma once

#include <QPainter>
#include <optional>

#include "gui/models/sweep_plot.h"
#include "gui/views/theme.h"

namespace foregather::gui {

/// Width of what paint_sweep_details() says.
inline constexpr double kSweepDetails = 320;

/// Where dots lie in an area, with room for labels of the axes left of and below them.
SweepScale sweep_scale(const SweepPlot& plot, const QRectF& area);

/// Axes, dots, front and limit. Each dot costs the same: a million of them some tenths of a second.
void paint_sweep(QPainter& painter, const QRectF& area, const SweepPlot& plot, const Theme& theme);
/// A ring around a dot.
void paint_chosen_dot(QPainter& painter, const QRectF& area, const SweepPlot& plot, std::size_t dot,
                      const Theme& theme);

/// What is known of the sweep, and of one dot where one is chosen.
void paint_sweep_details(QPainter& painter, const QRectF& area, const SweepPlot& plot,
                         std::optional<std::size_t> dot, const Theme& theme);

}  // namespace foregather::gui
