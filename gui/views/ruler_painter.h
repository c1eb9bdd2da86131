// The time ruler above, and what all lanes share: grid, steps, selection.
#pragma once

#include <QPainter>

#include "gui/models/document.h"
#include "gui/models/time_axis.h"
#include "gui/models/view_state.h"
#include "gui/views/theme.h"

namespace foregather::gui {

inline constexpr double kRulerHeight = 24;

/// A document, what of it is shown, and in which colours.
struct Scene {
  const Document& document;
  const ViewState& view;
  const Theme& theme;
};

/// The part of the rectangle right of the labels, as an axis.
TimeAxis axis_of(const QRectF& area, const ViewState& view);
/// Where a time lies, cut to the axis.
double x_of(const QRectF& area, const TimeAxis& axis, Ns time);

/// Labels of times, none over another.
void paint_ruler(QPainter& painter, const QRectF& area, const Scene& scene);
/// Lines down through the lanes at the labels, and at the begins and ends of compared steps.
void paint_grid(QPainter& painter, const QRectF& area, const Scene& scene);
/// The selected range, the cursor.
void paint_selection(QPainter& painter, const QRectF& area, const Scene& scene);

}  // namespace foregather::gui
