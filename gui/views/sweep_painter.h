// The picture of a sweep.
#pragma once

#include <QPainter>
#include <optional>

#include "gui/models/sweep_plot.h"
#include "gui/views/theme.h"

namespace foregather::gui {

/// Room for labels of the axes left of and below the dots.
inline constexpr double kSweepLeft = 92, kSweepBottom = 44, kSweepTop = 34;

/// Axes, dots, front and limit. Each dot costs the same: a million of them some tenths of a second.
void paint_sweep(QPainter& painter, const QRectF& area, const SweepPlot& plot,
                 const SweepScale& scale, const Theme& theme);

/// What is known of one dot, or of the sweep where none is chosen.
void paint_sweep_details(QPainter& painter, const QRectF& area, const SweepPlot& plot,
                         std::optional<std::size_t> dot, const Theme& theme);

}  // namespace foregather::gui
